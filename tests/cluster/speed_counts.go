package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
)

// callCounts are what each call of a kind asks the state for.
type callCounts struct {
	commits samples // one after the other
	reads   samples // of etcd
}

// countInSQLite makes a call, and notes its transactions.
func (c *callCounts) countInSQLite(m *manager, call func() error) error {
	before, err := m.transactions("OK")
	if err != nil {
		return err
	}
	if err := call(); err != nil {
		return err
	}
	after, err := m.transactions("OK")
	c.commits = append(c.commits, after-before)
	return err
}

// countInEtcd does not take the count of the manager, which also has the events that it sends beside its calls.
func (c *callCounts) countInEtcd(e *etcdCluster, call func() error) error {
	readsBefore, revisionBefore, err := e.traffic()
	if err != nil {
		return err
	}
	if err := call(); err != nil {
		return err
	}
	reads, revision, err := e.traffic()
	if err != nil {
		return err
	}
	commits, err := e.commitsBetween(revisionBefore, revision)
	c.commits = append(c.commits, float64(commits))
	c.reads = append(c.reads, reads-readsBefore)
	return err
}

// traffic gives a number that grows with each read of etcd, and its revision. A transaction that makes no revision is a
// read, too. It reads no key itself.
func (e *etcdCluster) traffic() (reads float64, revision int64, err error) {
	for member := 0; member < members; member++ {
		page, err := scrape(http.DefaultClient, url(adminPort(member))+"/metrics")
		if err != nil {
			return 0, 0, err
		}
		for _, method := range []string{`grpc_method="Range"`, `grpc_method="Txn"`} {
			reads += sumOf(page, "grpc_server_handled_total", `grpc_code="OK"`, method)
		}
	}
	status, err := call(longestCall, func(ctx context.Context) (*etcdserverpb.StatusResponse, error) {
		return etcdserverpb.NewMaintenanceClient(e.admin[0]).Status(ctx, &etcdserverpb.StatusRequest{})
	})
	return reads - float64(status.GetHeader().GetRevision()), status.GetHeader().GetRevision(), err
}

// commitsBetween counts the revisions after the first one, up to the last one, that changed volumes or claims.
func (e *etcdCluster) commitsBetween(first, last int64) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), longestCall)
	defer cancel()
	stream, err := etcdserverpb.NewWatchClient(e.admin[0]).Watch(ctx)
	if err != nil {
		return 0, err
	}
	every := []byte{0} // as the first key and as the end: all keys
	begin := &etcdserverpb.WatchRequest_CreateRequest{CreateRequest: &etcdserverpb.WatchCreateRequest{Key: every,
		RangeEnd: every, StartRevision: first + 1}}
	if err := stream.Send(&etcdserverpb.WatchRequest{RequestUnion: begin}); err != nil {
		return 0, err
	}
	found := map[int64]bool{}
	for seen := first; seen < last; {
		answer, err := stream.Recv()
		if err != nil {
			return 0, err
		}
		for _, event := range answer.Events {
			seen = max(seen, event.Kv.ModRevision)
			if event.Kv.ModRevision <= last && isRecord(string(event.Kv.Key)) {
				found[event.Kv.ModRevision] = true
			}
		}
	}
	return len(found), nil
}

func isRecord(key string) bool {
	return strings.HasPrefix(key, prefix+"shared/claims/") || strings.HasPrefix(key, prefix+"shared/volumes/")
}

// transactions counts those with an outcome, since the start of the manager.
func (m *manager) transactions(code string) (float64, error) {
	page, err := m.metrics()
	return sumOf(page, "mooring_manager_state_transactions_total", fmt.Sprintf("code=%q", code)), err
}

// metrics gives the manager's page for Prometheus.
func (m *manager) metrics() (string, error) {
	transport := &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", m.path("metrics.sock"))
		}}
	return scrape(&http.Client{Transport: transport, Timeout: longestCall}, "http://manager/metrics")
}

func scrape(client *http.Client, address string) (string, error) {
	answer, err := client.Get(address)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	page, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", address, answer.Status)
	}
	return string(page), err
}

// sumOf adds the values of a metric that have all these labels.
func sumOf(page, name string, labels ...string) float64 {
	sum := 0.0
	for _, line := range strings.Split(page, "\n") {
		if !strings.HasPrefix(line, name+"{") || !hasAll(line, labels) {
			continue
		}
		value, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
		if err == nil {
			sum += value
		}
	}
	return sum
}

func hasAll(line string, words []string) bool {
	for _, word := range words {
		if !strings.Contains(line, word) {
			return false
		}
	}
	return true
}

// A memory has KiB of a process.
type memory struct{ rss, peak, dirty float64 }

func (m *manager) memory() (memory, error) {
	process := fmt.Sprintf("/proc/%d/", m.process.Process.Pid)
	status, err := os.ReadFile(process + "status")
	if err != nil {
		return memory{}, err
	}
	maps, err := os.ReadFile(process + "smaps_rollup")
	return memory{kibOf(string(status), "VmRSS"), kibOf(string(status), "VmHWM"), kibOf(string(maps), "Private_Dirty")}, err
}

// kibOf finds a line such as "VmRSS:    1234 kB".
func kibOf(lines, name string) float64 {
	var value float64
	_, after, _ := strings.Cut(lines, name+":")
	_, _ = fmt.Sscan(after, &value)
	return value
}

// cpu gives the milliseconds of a processor that all managers, and all members of etcd, have used.
func (s *site) cpu() (managers, etcd float64) {
	for _, m := range s.managers {
		managers += cpuOf(m.process.Process.Pid)
	}
	for _, member := range s.etcd.running {
		etcd += cpuOf(member.Process.Pid)
	}
	return managers, etcd
}

func cpuOf(pid int) float64 {
	const tick, user, system = 10, 11, 12 // ms of a clock tick; fields behind the name (proc_pid_stat(5))
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) <= system {
		return 0
	}
	inUser, _ := strconv.ParseFloat(fields[user], 64)
	inSystem, _ := strconv.ParseFloat(fields[system], 64)
	return (inUser + inSystem) * tick
}
