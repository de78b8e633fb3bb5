package main

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A fault is what was done to the world, for the report.
type fault struct {
	Kind       string
	Target     string
	Start, End int64
}

func (f fault) String() string {
	return fmt.Sprintf("%s %s [%.1f, %.1f]", f.Kind, f.Target, seconds(f.Start), seconds(f.End))
}

type faultKind struct {
	name   string
	weight int
	make   func(*world, *manager)
	etcd   bool // it needs etcd
}

const lateRequests = "late-requests" // always of the first host, which has proxies

var faultKinds = []faultKind{
	{"kill", 3, (*world).killShortly, false},
	{"kill-past-recovery", 2, (*world).killLong, false},
	{"stop-past-lease", 3, (*world).stopPastLease, true},
	{"stop-past-recovery", 2, (*world).stopPastRecovery, true},
	{"partition", 3, (*world).partition, true},
	{"partition-past-recovery", 2, (*world).partitionLong, true},
	{"lost-requests", 1, (*world).loseRequests, true},
	{"lost-answers", 2, (*world).loseAnswers, true},
	{lateRequests, 3, (*world).delayRequests, true},
	{"etcd-member", 2, (*world).killMember, true},
	{"etcd-leader", 2, (*world).killLeader, true},
	{"etcd-no-quorum", 2, (*world).stopQuorum, true},
	{"etcd-compaction", 2, (*world).compact, true},
	{"clock", 2, (*world).jumpClock, false},
	{"plugin-away", 2, (*world).stopPlugins, false},
	{"host-lost", 2, (*world).loseHost, true},
	{"host-lost-zombie", 2, (*world).loseStoppedHost, true},
}

// checkFault tells whether the faults of a run can all be of the kind that its settings name.
func checkFault(s settings) error {
	var names []string
	for _, kind := range faultKinds {
		if kind.name == s.Fault && kind.etcd && s.SQLite {
			return fmt.Errorf("fault %q needs etcd: leave out --sqlite", s.Fault)
		}
		names = append(names, kind.name)
	}
	if s.Fault == "" || slices.Contains(names, s.Fault) {
		return nil
	}
	return fmt.Errorf("unknown fault %q: use one of %s", s.Fault, strings.Join(names, ", "))
}

// makeFaults makes three to five faults, sometimes two at a time.
func (w *world) makeFaults() {
	time.Sleep(time.Second)
	for left := 3 + w.chance.Intn(3); left > 0; left-- {
		first := w.chance.Intn(len(w.managers))
		targets := []*manager{w.managers[first]}
		if len(w.managers) > 2 && w.chance.Intn(4) == 0 {
			targets = append(targets, w.managers[(first+1)%len(w.managers)])
		}
		var group sync.WaitGroup
		var kinds []string
		for _, target := range targets {
			kind, found := w.chooseFault(kinds)
			if !found {
				break
			}
			kinds = append(kinds, kind.name)
			group.Add(1)
			go func() {
				defer group.Done()
				w.makeFault(kind, target)
			}()
		}
		w.plant()
		group.Wait()
		time.Sleep(w.between(200, 1500))
	}
}

// chooseFault gives no kind if none may happen beside the faults that happen now.
func (w *world) chooseFault(beside []string) (faultKind, bool) {
	var all []faultKind
	for _, kind := range faultKinds {
		if !w.mayHappen(kind, beside) {
			continue
		}
		for i := 0; i < kind.weight; i++ {
			all = append(all, kind)
		}
	}
	if len(all) == 0 {
		return faultKind{}, false
	}
	return pick(w.chance, all), true
}

func (w *world) mayHappen(kind faultKind, beside []string) bool {
	switch {
	case w.settings.Fault != "" && kind.name != w.settings.Fault:
		return false
	case kind.etcd && w.settings.SQLite:
		return false
	case len(beside) > 0 && strings.HasPrefix(kind.name, "etcd"): // etcd has only three members
		return false
	case kind.name == lateRequests && slices.Contains(beside, lateRequests): // both would be of the same host
		return false
	}
	return !w.isReal() || !isLostHost(kind.name) // the tasks of the real plugin would go on
}

func isLostHost(kind string) bool { return strings.HasPrefix(kind, "host-lost") }

func (w *world) makeFault(kind faultKind, target *manager) {
	f := fault{Kind: kind.name, Target: target.host, Start: w.history.now()}
	if kind.name[:4] == "etcd" {
		f.Target = "etcd"
	} else if kind.name == lateRequests {
		f.Target = hostName(0)
	}
	index := w.history.addFault(f)
	kind.make(w, target)
	w.history.endFault(index)
}

var chanceMutex sync.Mutex

// between chooses a time in milliseconds.
func (w *world) between(from, to int) time.Duration {
	chanceMutex.Lock()
	defer chanceMutex.Unlock()
	return time.Duration(from+w.chance.Intn(to-from)) * time.Millisecond
}

func (w *world) pastLease() time.Duration { return w.settings.Lease + w.between(200, 2500) }
func (w *world) pastRecovery() time.Duration {
	return w.pastLease() + w.settings.RecoverAfter + time.Second
}

func (w *world) killFor(m *manager, time_ time.Duration) {
	m.kill()
	time.Sleep(time_)
	w.startAgain(m)
}

func (w *world) startAgain(m *manager) {
	if err := m.start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

func (w *world) killShortly(m *manager) { w.killFor(m, w.between(10, 1000)) }
func (w *world) killLong(m *manager)    { w.killFor(m, w.pastRecovery()) }

func (w *world) stopFor(m *manager, time_ time.Duration) {
	m.signal(syscall.SIGSTOP)
	time.Sleep(time_)
	m.signal(syscall.SIGCONT)
}

func (w *world) stopPastLease(m *manager)    { w.stopFor(m, w.pastLease()) }
func (w *world) stopPastRecovery(m *manager) { w.stopFor(m, w.pastRecovery()) }

func (w *world) partitionFor(p partition, time_ time.Duration) {
	p.apply("-A")
	time.Sleep(time_)
	p.apply("-D")
}

func (w *world) partition(m *manager) { w.partitionFor(partition{m.host, true, true}, w.pastLease()) }
func (w *world) partitionLong(m *manager) {
	w.partitionFor(partition{m.host, true, true}, w.pastRecovery())
}
func (w *world) loseRequests(m *manager) {
	w.partitionFor(partition{m.host, true, false}, w.pastLease())
}
func (w *world) loseAnswers(m *manager) {
	w.partitionFor(partition{m.host, false, true}, w.pastLease())
}

// delayRequests holds transactions of the first host, which has proxies. Half of the time its manager stands still then,
// so that they come after its lease has ended. The clients of other hosts rest then: otherwise they change the records,
// and late transactions fail for that reason, with the compare of the lease or without.
func (w *world) delayRequests(*manager) {
	late := w.pastLease() + time.Second
	for _, p := range w.proxies {
		p.late.Store(int64(late))
		defer p.late.Store(0)
	}
	stop := w.between(0, 2) == 0
	w.othersRest.Store(stop)
	defer w.othersRest.Store(false)
	time.Sleep(300 * time.Millisecond)
	if stop {
		w.stopFor(w.managers[0], late)
	} else {
		time.Sleep(late)
	}
}

func flushFilters() { _ = exec.Command("iptables", "-w", "-F", "INPUT").Run() }

func (w *world) killMemberFor(member int) {
	w.etcd.kill(member)
	time.Sleep(w.between(500, 4000))
	if err := w.etcd.start(member); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	time.Sleep(time.Second)
}

func (w *world) killMember(*manager) { w.killMemberFor(int(w.between(0, 3) / time.Millisecond)) }
func (w *world) killLeader(*manager) { w.killMemberFor(w.etcd.leader()) }

func (w *world) stopQuorum(*manager) {
	leader := w.etcd.leader()
	for _, member := range []int{leader, (leader + 1) % members} {
		w.etcd.signal(member, syscall.SIGSTOP)
		defer w.etcd.signal(member, syscall.SIGCONT)
	}
	time.Sleep(w.between(500, 5000))
}

func (w *world) compact(*manager) {
	for i := 0; i < 3; i++ {
		if err := w.etcd.compact(w.witness.seen()); err != nil {
			fmt.Fprintln(os.Stderr, "compact:", err)
		}
		time.Sleep(w.between(50, 500))
	}
}

func (w *world) jumpClock(m *manager) {
	seconds := []int{-86400, -3600, -30, -3, 3, 30, 3600, 86400}
	offset := seconds[int(w.between(0, len(seconds))/time.Millisecond)]
	if err := m.setClock(offset); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	time.Sleep(w.pastLease())
}

func (w *world) stopPlugins(m *manager) {
	for _, plugin := range m.plugins {
		plugin.stop()
	}
	time.Sleep(w.between(500, 3000))
	w.servePlugins(m)
}

func (w *world) servePlugins(m *manager) {
	for _, plugin := range m.plugins {
		if err := plugin.serve(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
}

// loseHost kills a host with all its tasks, and says so, as an operator does. Later the host boots again.
func (w *world) loseHost(m *manager) {
	m.kill()
	w.endTasks(m)
	unmountBelow(m.directory)
	w.declareLost(m)
	time.Sleep(w.between(500, 4000))
	w.servePlugins(m)
	w.startAgain(m)
}

// loseStoppedHost ends the tasks of a host, but its manager only stands still, and goes on later.
func (w *world) loseStoppedHost(m *manager) {
	m.signal(syscall.SIGSTOP)
	w.endTasks(m)
	w.declareLost(m)
	time.Sleep(w.between(500, 4000))
	w.servePlugins(m)
	m.signal(syscall.SIGCONT)
}

func (w *world) endTasks(m *manager) {
	for _, plugin := range m.plugins {
		plugin.stop()
	}
	w.storage.nodeGone(m.host)
	for _, name := range mountsBelow(m.path("mounts")) {
		if name != m.path("mounts") {
			defer unmountBelow(name)
		}
	}
}

// declareLost waits until the lease of the host has ended: before, the command is refused.
func (w *world) declareLost(m *manager) {
	from := w.history.now()
	for tries := 0; tries < 20; tries++ {
		time.Sleep(w.settings.Lease / 2)
		for _, other := range w.managers {
			if other == m {
				continue
			}
			before, _ := other.listClaims("")
			if err := w.declareLostAt(other, m.host); err == nil {
				w.checkLost(m.host, before)
				w.history.mutex.Lock()
				w.lost = append(w.lost, absence{m.host, from, -1})
				w.history.mutex.Unlock()
				return
			}
		}
	}
	w.history.mutex.Lock()
	w.lost = append(w.lost, absence{m.host, from, -1}) // an answer may have been lost
	w.history.mutex.Unlock()
}
