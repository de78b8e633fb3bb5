package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	pb "mooring/tests/cluster/managerpb"
)

const (
	claimingHosts  = 5
	clientsOfHost  = 8
	restTime       = 3 * time.Second // before memory is read
	leastClaims    = 300             // a second
	longestList    = 100             // ms
	longestStart   = 2000            // ms
	mostGrowth     = 50              // KiB for 1,000 claims of others: a tenth of what the records take
	startPause     = 2 * time.Millisecond
	startPatience  = time.Minute
	claimsOfGrowth = 1000
)

// Memory is read after these shares of the claims. By half of them, a manager has as many events as it keeps.
var memoryShares = []float64{0, 0.1, 0.5, 1}

// A recordsPart has five hosts that claim, and one that only looks on: it has no records of its own.
type recordsPart struct {
	site    *site
	sizes   speedSizes
	volumes []volumeKind
	looker  *manager

	mutex sync.Mutex
	took  samples // of ClaimVolume

	registering time.Duration
	rates       samples // claims a second, up to each of memoryShares
	claiming    time.Duration
	claimCPU    [2]float64 // ms of managers, and of etcd
	idleCPU     [2]float64
	memory      []map[string]memory // by host, for each of memoryShares, and after the restarts
	volumeLists samples
	claimLists  samples
	starts      [3]samples // until the API answers, the plugin is healthy, and ListClaims works
	conflicts   float64
}

func measureRecords(directory string, sizes speedSizes) error {
	p := &recordsPart{sizes: sizes}
	for number := range sizes.volumes {
		p.volumes = append(p.volumes, volumeKind{Name: fmt.Sprintf("v%d", number), Access: []int32{multiNodeMultiWriter}})
	}
	var hosts []string
	for number := range claimingHosts + 1 {
		hosts = append(hosts, hostName(number))
	}
	var err error
	p.site, err = startSite(directory, hosts, p.volumes)
	defer p.site.stop()
	if err != nil {
		return err
	}
	for _, step := range []func() error{p.startAll, p.readMemory, p.registerAll, p.claimAll, p.idle, p.list, p.restart,
		p.readMemory} {
		if err := step(); err != nil {
			return err
		}
	}
	p.report()
	return nil
}

func (p *recordsPart) claims() int { return p.sizes.volumes * p.sizes.claimsOfVolume }

func (p *recordsPart) startAll() error {
	for _, host := range p.site.etcd.hosts {
		if _, err := p.site.startManager(host, p.site.overEtcd(host)); err != nil {
			return err
		}
	}
	p.looker = p.site.managers[claimingHosts]
	return nil
}

func (p *recordsPart) registerAll() error {
	began := time.Now()
	err := inParallel(clientsOfHost, len(p.volumes), func(_, number int) error {
		return p.site.managers[number%claimingHosts].registerVolume(p.volumes[number])
	})
	p.registering = time.Since(began)
	return err
}

func (p *recordsPart) claimsAt(point int) int { return int(memoryShares[point] * float64(p.claims())) }

func (p *recordsPart) claimAll() error {
	before, err := p.countConflicts()
	if err != nil {
		return err
	}
	for point := 1; point < len(memoryShares); point++ {
		if err := errors.Join(p.claim(p.claimsAt(point-1), p.claimsAt(point)), p.readMemory()); err != nil {
			return err
		}
	}
	after, err := p.countConflicts()
	p.conflicts = after - before
	return err
}

// claim makes the claims with these numbers, on all hosts at once. Each volume gets claims of all hosts.
func (p *recordsPart) claim(from, to int) error {
	var numbers [claimingHosts][]int
	for number := from; number < to; number++ {
		host := (number + number/len(p.volumes)) % claimingHosts
		numbers[host] = append(numbers[host], number)
	}
	began := time.Now()
	managers, etcd := p.site.cpu()
	err := inParallel(claimingHosts, claimingHosts, func(_, host int) error {
		return p.claimOn(p.site.managers[host], numbers[host])
	})
	took := time.Since(began)
	p.claiming += took
	p.rates = append(p.rates, float64(to-from)/took.Seconds())
	managersAfter, etcdAfter := p.site.cpu()
	p.claimCPU[0] += managersAfter - managers
	p.claimCPU[1] += etcdAfter - etcd
	return err
}

// idle measures what the records cost while nobody calls.
func (p *recordsPart) idle() error {
	managers, etcd := p.site.cpu()
	time.Sleep(p.sizes.idle)
	managersAfter, etcdAfter := p.site.cpu()
	p.idleCPU = [2]float64{managersAfter - managers, etcdAfter - etcd}
	return nil
}

// claimOn has a connection for each client.
func (p *recordsPart) claimOn(m *manager, numbers []int) error {
	var clients [clientsOfHost]pb.ManagerClient
	for i := range clients {
		connection, err := m.dial()
		if err != nil {
			return err
		}
		defer connection.Close()
		clients[i] = pb.NewManagerClient(connection)
	}
	return inParallel(clientsOfHost, len(numbers), func(worker, i int) error {
		ctx, cancel := context.WithTimeout(context.Background(), longestCall)
		defer cancel()
		began, number := time.Now(), numbers[i]
		volume := p.volumes[number%len(p.volumes)]
		if err := claimVolume(ctx, clients[worker], volume, fmt.Sprintf("task-%d", number)); err != nil {
			return fmt.Errorf("claim %d on host %s: %w", number, m.host, err)
		}
		p.mutex.Lock()
		defer p.mutex.Unlock()
		p.took.addTime(time.Since(began))
		return nil
	})
}

func (p *recordsPart) readMemory() error {
	time.Sleep(restTime)
	now := map[string]memory{}
	for _, m := range p.site.managers {
		used, err := m.memory()
		if err != nil {
			return err
		}
		now[m.host] = used
	}
	p.memory = append(p.memory, now)
	return nil
}

func (p *recordsPart) list() error {
	for range p.sizes.lists {
		began := time.Now()
		volumes, err := call(longestCall, func(ctx context.Context) (*pb.ListVolumesResponse, error) {
			return p.looker.client.ListVolumes(ctx, &pb.ListVolumesRequest{})
		})
		p.volumeLists.addTime(time.Since(began))
		if err != nil || len(volumes.Volumes) != len(p.volumes) {
			return fmt.Errorf("%d volumes are listed, not %d: %w", len(volumes.GetVolumes()), len(p.volumes), err)
		}
		began = time.Now()
		err = p.allClaims(p.looker)
		p.claimLists.addTime(time.Since(began))
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *recordsPart) allClaims(m *manager) error {
	claims, err := m.listClaims("")
	if err == nil && len(claims) != p.claims() {
		err = fmt.Errorf("host %s lists %d claims, not %d", m.host, len(claims), p.claims())
	}
	return err
}

func (p *recordsPart) countConflicts() (float64, error) {
	sum := 0.0
	for _, m := range p.site.managers {
		conflicts, err := m.transactions("ABORTED")
		if err != nil {
			return 0, err
		}
		sum += conflicts
	}
	return sum, nil
}

// restart stops managers in turn, as systemd does, and measures their start.
func (p *recordsPart) restart() error {
	for number := range p.sizes.restarts {
		if err := p.restartOne(p.site.managers[number%claimingHosts]); err != nil {
			return err
		}
	}
	return nil
}

func (p *recordsPart) restartOne(m *manager) error {
	m.stop()
	began := time.Now()
	if err := m.start(); err != nil {
		return err
	}
	connect := func() error { return errors.Join(m.accepts(), m.connect()) }
	if err := soon(m.host+" serves its socket", startPatience, startPause, connect); err != nil {
		return err
	}
	steps := []func() error{m.answers, m.pluginsAreHealthy, func() error { return p.allClaims(m) }}
	for i, step := range steps {
		if err := soon(m.host+" has started", startPatience, startPause, step); err != nil {
			return err
		}
		p.starts[i].addTime(time.Since(began))
	}
	return nil
}

func (p *recordsPart) report() {
	fmt.Printf("B. %d managers claim %d volumes %d times, with %d clients each. One more manager looks on.\n\n",
		claimingHosts, len(p.volumes), p.claims(), clientsOfHost)
	rate := float64(p.claims()) / p.claiming.Seconds()
	figures := table{{"", "seen", "wanted", ""}}
	figures.add("registered volumes a second, by 8 clients", inCount(float64(len(p.volumes))/p.registering.Seconds()))
	figures.add("claims a second", inCount(rate), fmt.Sprintf("at least %d", leastClaims), verdict(rate >= leastClaims))
	for i, part := range p.rates {
		figures.add(fmt.Sprintf("claims a second, from %d to %d", p.claimsAt(i), p.claimsAt(i+1)), inCount(part))
	}
	perClaim := func(cpu float64) string { return inMs(cpu / float64(p.claims())) }
	figures.add("CPU for a claim, ms: managers; etcd", perClaim(p.claimCPU[0])+"; "+perClaim(p.claimCPU[1]))
	figures.add("ClaimVolume among them, ms: p50 (p90)", fmt.Sprintf("%.0f (%.0f)", p.took.p50(), p.took.p90()))
	figures.add("transactions that conflicted with others", inCount(p.conflicts))
	atMost := func(what string, seen, bound float64) {
		figures.add(what, inCount(seen), fmt.Sprintf("at most %.0f", bound), verdict(seen <= bound))
	}
	atMost(fmt.Sprintf("ListVolumes of %d, ms: p50", len(p.volumes)), p.volumeLists.p50(), longestList)
	atMost(fmt.Sprintf("ListClaims of %d, ms: p50", p.claims()), p.claimLists.p50(), longestList)
	inPercent := func(cpu float64) string { return fmt.Sprintf("%.0f %%", 100*cpu/milliseconds(p.sizes.idle)) }
	figures.add("CPU without calls, of a core: all managers; etcd", inPercent(p.idleCPU[0])+"; "+inPercent(p.idleCPU[1]))
	figures.add("start until the API answers, ms: p50", inCount(p.starts[0].p50()))
	figures.add("start until the plugin is healthy, ms: p50", inCount(p.starts[1].p50()))
	atMost("start until ListClaims works, ms: p50", p.starts[2].p50(), longestStart)
	atMost(fmt.Sprintf("memory for %d claims of others after the first %d, KiB", claimsOfGrowth, p.claimsAt(2)),
		p.growth(p.looker, 2), mostGrowth)
	figures.print()
	p.reportMemory()
}

// growth gives the KiB of Private_Dirty for 1,000 claims of other hosts that came after a point.
func (p *recordsPart) growth(m *manager, after int) float64 {
	grown := p.memory[len(memoryShares)-1][m.host].dirty - p.memory[after][m.host].dirty
	later := float64(p.claims() - p.claimsAt(after))
	if m != p.looker {
		later *= float64(claimingHosts-1) / claimingHosts // the rest are its own
	}
	return grown / later * claimsOfGrowth
}

func (p *recordsPart) reportMemory() {
	titles, more := []string{""}, []string{}
	for point := range memoryShares {
		titles = append(titles, fmt.Sprintf("%d claims", p.claimsAt(point)))
		if point > 0 && point < len(memoryShares)-1 {
			more = append(more, fmt.Sprintf("after %d, more for %d of others", p.claimsAt(point), claimsOfGrowth))
		}
	}
	titles = append(titles, "restarted")
	rss, dirty := table{append(slices.Clone(titles), "peak before")}, table{append(slices.Clone(titles), more...)}
	for _, m := range p.site.managers {
		rssRow, dirtyRow := []string{m.host}, []string{m.host}
		for point, then := range p.memory {
			if point == len(memoryShares) && m == p.looker {
				rssRow, dirtyRow = append(rssRow, ""), append(dirtyRow, "")
				continue
			}
			rssRow, dirtyRow = append(rssRow, inCount(then[m.host].rss)), append(dirtyRow, inCount(then[m.host].dirty))
		}
		rss.add(append(rssRow, inCount(p.memory[len(memoryShares)-1][m.host].peak))...)
		dirty.add(append(dirtyRow, inCount(p.growth(m, 1)), inCount(p.growth(m, 2)))...)
	}
	fmt.Printf("Private_Dirty in KiB. Host %s looks on.\n\n", p.looker.host)
	dirty.print()
	fmt.Printf("VmRSS in KiB, and VmHWM before the restarts.\n\n")
	rss.print()
}
