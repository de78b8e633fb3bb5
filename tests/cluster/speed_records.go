package main

import (
	"context"
	"errors"
	"fmt"
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
	firstShare     = 10              // memory is also read after a tenth of the claims
	startPause     = 2 * time.Millisecond
	startPatience  = time.Minute
	claimsOfGrowth = 1000
)

// A recordsPart has five hosts that claim, and one that only looks on: it has no records of its own.
type recordsPart struct {
	site    *site
	sizes   speedSizes
	volumes []volumeKind
	looker  *manager

	mutex sync.Mutex
	took  samples // of ClaimVolume

	claiming      time.Duration
	memory        []map[string]memory // by host: before the records, with a tenth of the claims, and with all
	volumeLists   samples
	claimLists    samples
	starts        [3]samples // until the API answers, the plugin is healthy, and ListClaims works
	conflicts     float64
	claimsOfFirst int
}

func measureRecords(directory string, sizes speedSizes) error {
	p := &recordsPart{sizes: sizes}
	for number := range sizes.volumes {
		p.volumes = append(p.volumes, volumeKind{Name: fmt.Sprintf("v%d", number), Access: []int32{multiNodeMultiWriter}})
	}
	p.claimsOfFirst = p.claims() / firstShare
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
	for _, step := range []func() error{p.startAll, p.readMemory, p.registerAll, p.claimFirst, p.readMemory, p.claimRest,
		p.readMemory, p.list, p.countConflicts, p.restart} {
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
	return inParallel(clientsOfHost, len(p.volumes), func(_, number int) error {
		return p.site.managers[number%claimingHosts].registerVolume(p.volumes[number])
	})
}

func (p *recordsPart) claimFirst() error { return p.claim(0, p.claimsOfFirst) }
func (p *recordsPart) claimRest() error  { return p.claim(p.claimsOfFirst, p.claims()) }

// claim makes the claims with these numbers, on all hosts at once. Each volume gets claims of all hosts.
func (p *recordsPart) claim(from, to int) error {
	var numbers [claimingHosts][]int
	for number := from; number < to; number++ {
		host := (number + number/len(p.volumes)) % claimingHosts
		numbers[host] = append(numbers[host], number)
	}
	began := time.Now()
	err := inParallel(claimingHosts, claimingHosts, func(_, host int) error {
		return p.claimOn(p.site.managers[host], numbers[host])
	})
	p.claiming += time.Since(began)
	return err
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

func (p *recordsPart) countConflicts() error {
	for _, m := range p.site.managers {
		conflicts, err := m.transactions("ABORTED")
		if err != nil {
			return err
		}
		p.conflicts += conflicts
	}
	return nil
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
	figures.add("claims a second", inCount(rate), fmt.Sprintf("at least %d", leastClaims), verdict(rate >= leastClaims))
	figures.add("ClaimVolume among them, ms: p50 (p90)", fmt.Sprintf("%.0f (%.0f)", p.took.p50(), p.took.p90()))
	figures.add("transactions that conflicted with others", inCount(p.conflicts))
	atMost := func(what string, seen, bound float64) {
		figures.add(what, inCount(seen), fmt.Sprintf("at most %.0f", bound), verdict(seen <= bound))
	}
	atMost(fmt.Sprintf("ListVolumes of %d, ms: p50", len(p.volumes)), p.volumeLists.p50(), longestList)
	atMost(fmt.Sprintf("ListClaims of %d, ms: p50", p.claims()), p.claimLists.p50(), longestList)
	figures.add("start until the API answers, ms: p50", inCount(p.starts[0].p50()))
	figures.add("start until the plugin is healthy, ms: p50", inCount(p.starts[1].p50()))
	atMost("start until ListClaims works, ms: p50", p.starts[2].p50(), longestStart)
	atMost(fmt.Sprintf("memory for %d claims of others, KiB", claimsOfGrowth), p.growth(p.looker, p.claims()), mostGrowth)
	figures.print()
	p.reportMemory()
}

// growth gives the KiB of Private_Dirty for 1,000 claims of other hosts, which come after the first ones.
func (p *recordsPart) growth(m *manager, ofOthers int) float64 {
	grown := p.memory[2][m.host].dirty - p.memory[1][m.host].dirty
	later := float64(ofOthers) * (1 - 1/float64(firstShare))
	return float64(grown) / later * claimsOfGrowth
}

func (p *recordsPart) reportMemory() {
	first, all := fmt.Sprintf("%d claims", p.claimsOfFirst), fmt.Sprintf("%d claims", p.claims())
	used := table{{"memory, KiB", "VmRSS, no records", first, all, "Private_Dirty, no records", first, all,
		fmt.Sprintf("more for %d of others", claimsOfGrowth)}}
	for _, m := range p.site.managers {
		name, ofOthers := m.host+", claims", p.claims()*(claimingHosts-1)/claimingHosts
		if m == p.looker {
			name, ofOthers = m.host+", looks on", p.claims()
		}
		row := []string{name}
		for _, then := range p.memory {
			row = append(row, inCount(then[m.host].rss))
		}
		for _, then := range p.memory {
			row = append(row, inCount(then[m.host].dirty))
		}
		used.add(append(row, inCount(p.growth(m, ofOthers)))...)
	}
	used.print()
}
