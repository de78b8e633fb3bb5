package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// A world is everything of one seed: etcd, the managers, their plugins, and the storage that these share.
type world struct {
	seed      int64
	settings  settings
	directory string
	chance    *rand.Rand // of the faults

	history  *history
	storage  *storage
	etcd     *etcdCluster
	proxies  []*proxy
	managers []*manager
	plugins  []*fakePlugin
	witness  *witness
	lost     []absence
	volumes  []volumeKind

	faultsOver atomic.Bool
	busy       atomic.Int64 // detaches that were refused because a task used the volume
	late       atomic.Bool  // the operations take too long
	othersRest atomic.Bool  // only the clients of the first host make calls
}

func newWorld(seed int64, s settings, directory string) *world {
	w := &world{seed: seed, settings: s, directory: directory, chance: rand.New(rand.NewSource(seed)),
		history: newHistory(), volumes: fakeVolumes}
	w.storage = newStorage(fakeVolumes, w.history.now)
	if s.Planted != plantedContent {
		w.storage.directory = filepath.Join(directory, "disks")
	}
	if w.isReal() {
		w.volumes = append([]volumeKind{realVolume}, fakeVolumes...)
	}
	return w
}

func (w *world) hosts() []string {
	var hosts []string
	for i := 0; i < w.settings.Managers; i++ {
		hosts = append(hosts, hostName(i))
	}
	return hosts
}

func (w *world) start() error {
	if err := os.MkdirAll(w.directory, 0o700); err != nil {
		return err
	}
	if err := w.storage.makeDisks(); err != nil {
		return err
	}
	if !w.settings.SQLite {
		var err error
		if w.etcd, err = startEtcd(w.directory, w.hosts(), withoutSync); err != nil {
			return err
		}
		w.witness = startWitness(w.etcd, w.history)
		if err := makeKey(filepath.Join(w.directory, "key")); err != nil {
			return err
		}
	}
	for _, host := range w.hosts() {
		if err := w.startHost(host); err != nil {
			return err
		}
	}
	if err := w.ready(); err != nil {
		return err
	}
	for _, volume := range w.volumes {
		err := w.createRealVolume(volume)
		if !volume.Real {
			err = w.managers[0].registerVolume(volume)
		}
		if err != nil {
			return fmt.Errorf("register volume %s: %w", volume.Name, err)
		}
	}
	return nil
}

// Some seeds also have a volume of mooring-plugin, in a pool that all hosts share. No host of them is declared lost,
// because the tasks of that plugin would go on.
func (w *world) isReal() bool { return w.seed%realEvery == 0 && !isLostHost(w.settings.Fault) }

func (w *world) runRealPlugin(m *manager) error {
	pool := filepath.Join(w.directory, "pool")
	if err := os.MkdirAll(pool, 0o700); err != nil {
		return err
	}
	return w.mooring(m, "plugin", "run", realPlugin, "--exec", filepath.Join(programs, "mooring-plugin"), "--",
		"--state-dir", m.path("plugin"), "--node-id", m.host, "--pool", "name=shared,backend=image,shared=true,path="+pool)
}

func (w *world) createRealVolume(volume volumeKind) error {
	if !volume.Real {
		return nil
	}
	return w.mooring(w.managers[0], "volume", "create", volume.Name, "--plugin", realPlugin, "--size", "16MiB",
		"--fs-type", "ext4", "--access", "single-node-writer", "--param", "pool=shared")
}

func makeKey(path string) error {
	key := make([]byte, 32)
	rand.New(rand.NewSource(1)).Read(key)
	return os.WriteFile(path, []byte(fmt.Sprintf("%x\n", key)), 0o600)
}

func (w *world) startHost(host string) error {
	flags, err := w.stateFlags(host)
	if err != nil {
		return err
	}
	m, err := newManager(w.directory, host, flags, w.history)
	if err != nil {
		return err
	}
	w.managers = append(w.managers, m)
	for i, name := range []string{nodePlugin, controllerPlugin} {
		plugin := newPlugin(name, host, m.path("plugins/"+name+".sock"), w.storage, w.seed*100+int64(2*hostNumber(host)+i))
		plugin.lacksPool = hostNumber(host) > 0 && hostNumber(host) == w.settings.Managers-1
		if err := plugin.serve(); err != nil {
			return err
		}
		m.plugins = append(m.plugins, plugin)
		w.plugins = append(w.plugins, plugin)
	}
	if err := m.setClock(0); err != nil {
		return err
	}
	return m.start()
}

// ready waits for all managers at once, and registers their plugins.
func (w *world) ready() error {
	return w.atAll(func(m *manager) error {
		err := eventually(m.host+" answers", time.Minute, func() error { return errors.Join(m.revive(), m.answers()) })
		if err == nil {
			err = m.registerPlugins()
		}
		if err == nil && w.isReal() {
			err = w.runRealPlugin(m)
		}
		return err
	})
}

func (w *world) atAll(action func(*manager) error) error {
	errs := make([]error, len(w.managers))
	var group sync.WaitGroup
	for i, m := range w.managers {
		group.Add(1)
		go func() {
			defer group.Done()
			errs[i] = action(m)
		}()
	}
	group.Wait()
	return errors.Join(errs...)
}

func (w *world) stateFlags(host string) ([]string, error) {
	if w.settings.SQLite {
		return nil, nil
	}
	var ports []int
	for m := 0; m < members; m++ {
		port := hostPort(host, m)
		if needsProxies(w.settings.Planted) || host == hostName(0) {
			p, err := startProxy(host, m, w.settings.Planted)
			if err != nil {
				return nil, err
			}
			w.proxies = append(w.proxies, p)
			port = proxyPort(host, m)
		}
		ports = append(ports, port)
	}
	return []string{"--state", etcdState(ports), "--etcd-prefix", prefix,
		"--etcd-lease", fmt.Sprint(int(w.settings.Lease.Seconds())),
		"--recover-after", fmt.Sprint(int(w.settings.RecoverAfter.Seconds())),
		"--etcd-secrets-key", filepath.Join(w.directory, "key")}, nil
}

func (w *world) managerOf(host string) *manager { return w.managers[hostNumber(host)] }

// play lets the clients work while faults are made.
func (w *world) play() {
	var group sync.WaitGroup
	for i := 0; i < 3*len(w.managers); i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			w.newClient(i).run()
		}()
	}
	time.AfterFunc(2*time.Minute, func() { w.late.Store(true) })
	w.makeFaults()
	w.faultsOver.Store(true)
	group.Wait()
}

func (w *world) isOver() bool {
	return w.late.Load() || w.faultsOver.Load() && w.history.count() >= w.settings.Operations
}

func (w *world) pause() time.Duration {
	if w.history.count() > 5*w.settings.Operations {
		return 300 * time.Millisecond // the checker needs more time for each further operation
	}
	return 30 * time.Millisecond
}

// stop ends all processes and mounts, whatever their state.
func (w *world) stop() {
	for _, m := range w.managers {
		m.kill()
	}
	for _, p := range w.plugins {
		p.stop()
	}
	for _, p := range w.proxies {
		p.stop()
	}
	if w.witness != nil {
		w.witness.end()
	}
	if w.etcd != nil {
		w.etcd.stopAll()
	}
	flushFilters()
	unmountBelow(w.directory)
}

// mooring runs the command line at a manager.
func (w *world) mooring(m *manager, words ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	command := exec.CommandContext(ctx, filepath.Join(programs, "mooring"), words...)
	command.Env = []string{"PATH=" + os.Getenv("PATH"), "MOORING_MANAGER_SOCKET=" + m.path("manager.sock"), "MOORING_TIMEOUT=15"}
	said, err := command.CombinedOutput()
	if err != nil {
		return fmt.Errorf("mooring %v on %s: %w: %s", words, m.host, err, said)
	}
	return nil
}
