package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

const members = 3

// Ports. The driver has a network namespace of its own, so they are free.
func adminPort(member int) int         { return 20000 + member }
func peerPort(member int) int          { return 21000 + member }
func hostPort(host string, m int) int  { return 22000 + 10*hostNumber(host) + m }
func proxyPort(host string, m int) int { return 23000 + 10*hostNumber(host) + m }

// etcdState is the value of --state for members at these ports.
func etcdState(ports []int) string {
	var members []string
	for _, port := range ports {
		members = append(members, fmt.Sprintf("127.0.0.1:%d", port))
	}
	return "etcd://" + strings.Join(members, ",")
}

func url(port int) string { return fmt.Sprintf("http://127.0.0.1:%d", port) }

// An etcdCluster has three members. Each listens on a port of its own for each manager, so that a partition is a rule
// of the packet filter.
type etcdCluster struct {
	directory string
	hosts     []string
	flags     []string // of each member
	mutex     sync.Mutex
	running   [members]*exec.Cmd
	admin     [members]*grpc.ClientConn
}

// withoutSync makes etcd quicker. A test that ends no kernel loses nothing by it.
const withoutSync = "--unsafe-no-fsync"

func startEtcd(directory string, hosts []string, flags ...string) (*etcdCluster, error) {
	e := &etcdCluster{directory: directory, hosts: hosts, flags: flags}
	for m := 0; m < members; m++ {
		if err := e.start(m); err != nil {
			return e, err
		}
		connection, err := grpc.NewClient(fmt.Sprintf("127.0.0.1:%d", adminPort(m)), plain())
		if err != nil {
			return e, err
		}
		e.admin[m] = connection
	}
	return e, eventually("etcd serves", 60*time.Second, func() error { return e.healthy() })
}

func plain() grpc.DialOption { return grpc.WithTransportCredentials(insecure.NewCredentials()) }

func (e *etcdCluster) start(m int) error {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if e.running[m] != nil {
		return nil
	}
	name := fmt.Sprintf("m%d", m)
	clients := []string{url(adminPort(m))}
	var initial []string
	for _, host := range e.hosts {
		clients = append(clients, url(hostPort(host, m)))
	}
	for other := 0; other < members; other++ {
		initial = append(initial, fmt.Sprintf("m%d=%s", other, url(peerPort(other))))
	}
	flags := append([]string{"--name", name, "--data-dir", filepath.Join(e.directory, name), "--log-level", "error",
		"--listen-client-urls", strings.Join(clients, ","), "--advertise-client-urls", clients[0],
		"--listen-peer-urls", url(peerPort(m)), "--initial-advertise-peer-urls", url(peerPort(m)),
		"--initial-cluster", strings.Join(initial, ",")}, e.flags...)
	process, err := startProcess(exec.Command("etcd", flags...), filepath.Join(e.directory, name+".log"))
	e.running[m] = process
	return err
}

func (e *etcdCluster) kill(m int) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if process := e.running[m]; process != nil {
		endProcess(process, syscall.SIGKILL)
		e.running[m] = nil
	}
}

func (e *etcdCluster) signal(m int, signal syscall.Signal) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if e.running[m] != nil {
		_ = e.running[m].Process.Signal(signal)
	}
}

func (e *etcdCluster) stopAll() {
	for m := 0; m < members; m++ {
		e.kill(m)
		if e.admin[m] != nil {
			e.admin[m].Close()
		}
	}
}

// any calls one member after another until one answers.
func (e *etcdCluster) any(call func(context.Context, *grpc.ClientConn) error) error {
	var err error
	for m := 0; m < members; m++ {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		err = call(ctx, e.admin[m])
		cancel()
		if err == nil {
			return nil
		}
	}
	return err
}

func (e *etcdCluster) healthy() error {
	for m := 0; m < members; m++ {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		_, err := etcdserverpb.NewKVClient(e.admin[m]).Range(ctx, &etcdserverpb.RangeRequest{Key: []byte("health")})
		cancel()
		if err != nil {
			return err
		}
	}
	return nil
}

// revision is that of a linearizable read.
func (e *etcdCluster) revision() (int64, error) {
	var revision int64
	err := e.any(func(ctx context.Context, member *grpc.ClientConn) error {
		found, err := etcdserverpb.NewKVClient(member).Range(ctx, &etcdserverpb.RangeRequest{Key: []byte("none")})
		revision = found.GetHeader().GetRevision()
		return err
	})
	return revision, err
}

func (e *etcdCluster) leader() int {
	for m := 0; m < members; m++ {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		status, err := etcdserverpb.NewMaintenanceClient(e.admin[m]).Status(ctx, &etcdserverpb.StatusRequest{})
		cancel()
		if err == nil && status.Leader == status.Header.MemberId {
			return m
		}
	}
	return 0
}

func (e *etcdCluster) compact(revision int64) error {
	return e.any(func(ctx context.Context, member *grpc.ClientConn) error {
		_, err := etcdserverpb.NewKVClient(member).Compact(ctx,
			&etcdserverpb.CompactionRequest{Revision: revision, Physical: true})
		return err
	})
}

func (e *etcdCluster) list(prefix string) (*etcdserverpb.RangeResponse, error) {
	var found *etcdserverpb.RangeResponse
	err := e.any(func(ctx context.Context, member *grpc.ClientConn) error {
		var err error
		found, err = etcdserverpb.NewKVClient(member).Range(ctx,
			&etcdserverpb.RangeRequest{Key: []byte(prefix), RangeEnd: endOf(prefix)})
		return err
	})
	return found, err
}

func (e *etcdCluster) delete(key string) error {
	return e.any(func(ctx context.Context, member *grpc.ClientConn) error {
		_, err := etcdserverpb.NewKVClient(member).DeleteRange(ctx,
			&etcdserverpb.DeleteRangeRequest{Key: []byte(key)})
		return err
	})
}

// endOf returns the first key after all keys with the prefix.
func endOf(prefix string) []byte {
	end := []byte(prefix)
	end[len(end)-1]++
	return end
}

// partition drops the packets between a host and all members: its requests, the answers, or both.
type partition struct {
	host              string
	requests, answers bool
}

func (p partition) apply(action string) {
	for m := 0; m < members; m++ {
		port := fmt.Sprint(hostPort(p.host, m))
		if p.requests {
			filter(action, "--dport", port)
		}
		if p.answers {
			filter(action, "--sport", port)
		}
	}
}

func filter(action, end, port string) {
	said, err := exec.Command("iptables", "-w", action, "INPUT", "-i", "lo", "-p", "tcp", end, port, "-j", "DROP").
		CombinedOutput()
	if err != nil {
		fmt.Fprintf(os.Stderr, "iptables: %v: %s\n", err, said)
	}
}
