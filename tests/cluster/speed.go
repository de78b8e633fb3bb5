package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// The speed of managers over etcd, without any fault: tests/cluster/speed starts this.

// speedSizes say how much is measured.
type speedSizes struct {
	rounds         int // of calls that are measured
	counted        int // of calls whose transactions are counted
	volumes        int
	claimsOfVolume int
	lists          int
	restarts       int
	idle           time.Duration
}

func sizesOf(quick bool) speedSizes {
	sizes := speedSizes{rounds: 300, counted: 11, volumes: 1000, claimsOfVolume: 10, lists: 10, restarts: 5,
		idle: 20 * time.Second} // two rounds of the managers, which look for claims to free
	if quick {
		sizes.rounds, sizes.volumes = 30, 100
	}
	return sizes
}

// measureSpeed gives the exit status: 2 if something could not be measured, whatever the figures are.
func measureSpeed(directory string, quick bool) int {
	err := measureCalls(filepath.Join(directory, "calls"), sizesOf(quick))
	if err == nil {
		err = measureRecords(filepath.Join(directory, "records"), sizesOf(quick))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	return 0
}

// A site is an etcd cluster that syncs each write, with managers.
type site struct {
	directory string
	storage   *storage
	etcd      *etcdCluster
	managers  []*manager
}

// startSite starts etcd for the hosts, and no manager yet.
func startSite(directory string, hosts []string, volumes []volumeKind) (*site, error) {
	s := &site{directory: directory, storage: newStorage(volumes, func() int64 { return 0 })}
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return s, err
	}
	if err := makeKey(filepath.Join(directory, "key")); err != nil {
		return s, err
	}
	var err error
	s.etcd, err = startEtcd(directory, hosts)
	return s, err
}

func (s *site) overEtcd(host string) []string {
	var ports []int
	for m := 0; m < members; m++ {
		ports = append(ports, hostPort(host, m))
	}
	return []string{"--state", etcdState(ports), "--etcd-prefix", prefix,
		"--etcd-secrets-key", filepath.Join(s.directory, "key")}
}

// startManager waits until its plugin is healthy.
func (s *site) startManager(host string, flags []string) (*manager, error) {
	m, err := newManager(s.directory, host, flags, newHistory())
	if err != nil {
		return m, err
	}
	s.managers = append(s.managers, m)
	m.flags = append(m.flags, "--metrics-listen", "unix:"+m.path("metrics.sock"))
	plugin := newPlugin(nodePlugin, host, m.path("plugins/node.sock"), s.storage, 1)
	plugin.calm = true
	m.plugins = append(m.plugins, plugin)
	if err := errors.Join(plugin.serve(), m.start()); err != nil {
		return m, err
	}
	if err := eventually(host+" answers", time.Minute, m.answers); err != nil {
		return m, err
	}
	return m, errors.Join(m.registerPlugins(), m.waitUntilReady(time.Minute))
}

func (s *site) stop() {
	for _, m := range s.managers {
		m.kill()
		for _, plugin := range m.plugins {
			plugin.stop()
		}
	}
	if s.etcd != nil {
		s.etcd.stopAll()
	}
	unmountBelow(s.directory)
}

// inParallel calls do for 0 to count-1, each worker one at a time. Each worker ends at its first error.
func inParallel(workers, count int, do func(worker, number int) error) error {
	numbers := make(chan int, count)
	for number := 0; number < count; number++ {
		numbers <- number
	}
	close(numbers)
	errs := make([]error, workers)
	var group sync.WaitGroup
	for worker := range workers {
		group.Go(func() {
			for number := range numbers {
				if errs[worker] = do(worker, number); errs[worker] != nil {
					return
				}
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}
