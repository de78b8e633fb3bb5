package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	pb "mooring/tests/cluster/managerpb"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
)

const (
	recordBytes = 512 // about a claim or a volume
	diskBytes   = 1 << 20
	mostBeside  = 1.5 // ms that a claim or attach may take beside the commit
	warmRounds  = 3
	longestCall = time.Minute
)

// The volume of this part. The plugin has no controller, so the time is that of the manager and the kernel.
var callVolume = volumeKind{Name: "calls", Access: []int32{singleNodeWriter}}

type measuredCall struct {
	name     string
	hasBound bool
	make     func(ctx context.Context, m *manager, task string) error
}

var measuredCalls = []measuredCall{
	{"ClaimVolume", true, func(ctx context.Context, m *manager, task string) error {
		return claimVolume(ctx, m.client, callVolume, task)
	}},
	{"ReleaseVolume", false, func(ctx context.Context, m *manager, task string) error {
		_, err := m.client.ReleaseVolume(ctx, &pb.ReleaseVolumeRequest{Volume: &pb.VolumeKey{Id: callVolume.Name},
			Allocation: task, Mode: pb.ClaimMode_WRITE})
		return err
	}},
	{"Attach", true, func(ctx context.Context, m *manager, task string) error {
		return drain(m.client.Attach(ctx, &pb.AttachRequest{Volume: &pb.VolumeKey{Id: callVolume.Name}, Allocation: task,
			Mode: pb.ClaimMode_WRITE, Capability: capability(callVolume.Access[0]), AttachPath: m.path("attached")}))
	}},
	{"Detach", false, func(ctx context.Context, m *manager, task string) error {
		return drain(m.client.Detach(ctx, &pb.DetachRequest{Allocation: task, Request: callVolume.Name}))
	}},
}

func claimVolume(ctx context.Context, client pb.ManagerClient, volume volumeKind, task string) error {
	_, err := client.ClaimVolume(ctx, &pb.ClaimVolumeRequest{Volume: &pb.VolumeKey{Id: volume.Name}, Allocation: task,
		Mode: pb.ClaimMode_WRITE, Capability: capability(volume.Access[0])})
	return err
}

// callFigures are those of one manager, by the name of the call.
type callFigures struct {
	manager *manager
	took    map[string]*samples
	counts  map[string]*callCounts
}

func newCallFigures(m *manager) *callFigures {
	f := &callFigures{manager: m, took: map[string]*samples{}, counts: map[string]*callCounts{}}
	for _, one := range measuredCalls {
		f.took[one.name], f.counts[one.name] = &samples{}, &callCounts{}
	}
	return f
}

func (f *callFigures) make(one measuredCall, task string) error {
	ctx, cancel := context.WithTimeout(context.Background(), longestCall)
	defer cancel()
	if err := one.make(ctx, f.manager, task); err != nil {
		return fmt.Errorf("%s on host %s: %w", one.name, f.manager.host, err)
	}
	return nil
}

// The floor of each call: a record is written to etcd, read from most members, read from one, and written to the disk.
const (
	floorPut = iota
	floorRange
	floorLocalRange
	floorDisk
)

var floorNames = [...]string{"Put of %d bytes", "Range of %d bytes", "Range of %d bytes, serializable",
	"write and fdatasync of %d bytes"}

// A callsPart compares a manager with SQLite and one with etcd, in turns, so that the noise of the machine is the same.
type callsPart struct {
	site         *site
	sqlite, etcd *callFigures
	floors       [4]samples // of floorNames
	disk         *os.File
}

func measureCalls(directory string, sizes speedSizes) error {
	s, err := startSite(directory, []string{hostName(0)}, []volumeKind{callVolume})
	defer s.stop()
	if err != nil {
		return err
	}
	part := &callsPart{site: s}
	if err := part.start(); err != nil {
		return err
	}
	for round := -warmRounds; round < sizes.rounds; round++ {
		if err := part.round(round); err != nil {
			return err
		}
	}
	for round := range sizes.counted {
		if err := part.count(fmt.Sprintf("counted-%d", round)); err != nil {
			return err
		}
	}
	part.report(sizes)
	return nil
}

func (p *callsPart) start() error {
	over, err := p.site.startManager(hostName(0), p.site.overEtcd(hostName(0)))
	if err != nil {
		return err
	}
	alone, err := p.site.startManager("alone", nil)
	if err != nil {
		return err
	}
	p.sqlite, p.etcd = newCallFigures(alone), newCallFigures(over)
	for _, m := range p.site.managers {
		if err := m.registerVolume(callVolume); err != nil {
			return err
		}
	}
	p.disk, err = os.Create(filepath.Join(p.site.directory, "synced"))
	if err != nil {
		return err
	}
	if _, err := p.disk.Write(make([]byte, diskBytes)); err != nil {
		return err
	}
	return p.disk.Sync()
}

// round measures all calls once. The first rounds have negative numbers, and are not noted.
func (p *callsPart) round(number int) error {
	for _, figures := range []*callFigures{p.sqlite, p.etcd} {
		for _, one := range measuredCalls {
			began := time.Now()
			if err := figures.make(one, fmt.Sprintf("round-%d", number)); err != nil {
				return err
			}
			if number >= 0 {
				figures.took[one.name].addTime(time.Since(began))
			}
		}
	}
	return p.floor(number)
}

// floor asks the member that the manager asks, too.
func (p *callsPart) floor(round int) error {
	ctx, cancel := context.WithTimeout(context.Background(), longestCall)
	defer cancel()
	member := etcdserverpb.NewKVClient(p.site.etcd.admin[0])
	key, record := []byte("speed"), make([]byte, recordBytes)
	read := func(local bool) error {
		_, err := member.Range(ctx, &etcdserverpb.RangeRequest{Key: key, Serializable: local})
		return err
	}
	for which, do := range [...]func() error{
		func() error {
			_, err := member.Put(ctx, &etcdserverpb.PutRequest{Key: key, Value: record})
			return err
		},
		func() error { return read(false) },
		func() error { return read(true) },
		func() error { return p.syncOnce(record, max(round, 0)) },
	} {
		began := time.Now()
		if err := do(); err != nil {
			return err
		}
		if round >= 0 {
			p.floors[which].addTime(time.Since(began))
		}
	}
	return nil
}

// syncOnce overwrites a part of a file, as etcd and SQLite do with their logs.
func (p *callsPart) syncOnce(record []byte, round int) error {
	if _, err := p.disk.WriteAt(record, int64(round*recordBytes%diskBytes)); err != nil {
		return err
	}
	return syscall.Fdatasync(int(p.disk.Fd()))
}

func (p *callsPart) count(task string) error {
	for _, one := range measuredCalls {
		err := p.sqlite.counts[one.name].countInSQLite(p.sqlite.manager, func() error { return p.sqlite.make(one, task) })
		if err != nil {
			return err
		}
		err = p.etcd.counts[one.name].countInEtcd(p.site.etcd, func() error { return p.etcd.make(one, task) })
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *callsPart) report(sizes speedSizes) {
	fmt.Printf("A. One manager with SQLite, and one with etcd: %d rounds, in ms. The leader is member %d. "+
		"Manager and Put ask member 0.\n\n", sizes.rounds, p.site.etcd.leader())
	times := table{{"", "SQLite p50", "p90", "etcd p50", "p90", "wanted: etcd p50 at most", ""}}
	bound := p.floors[floorPut].p50() + mostBeside
	for _, one := range measuredCalls {
		sqlite, etcd := p.sqlite.took[one.name], p.etcd.took[one.name]
		row := []string{one.name, inMs(sqlite.p50()), inMs(sqlite.p90()), inMs(etcd.p50()), inMs(etcd.p90())}
		if one.hasBound {
			row = append(row, inMs(bound), verdict(etcd.p50() <= bound))
		}
		times.add(row...)
	}
	for which, name := range floorNames {
		row := []string{fmt.Sprintf(name, recordBytes), "", "", inMs(p.floors[which].p50()), inMs(p.floors[which].p90())}
		if which == floorDisk {
			row = []string{row[0], row[3], row[4]}
		}
		times.add(row...)
	}
	times.print()
	p.reportCounts()
}

func (p *callsPart) reportCounts() {
	more := table{{"", "etcd more than SQLite", "transactions, SQLite", "etcd", "their Puts", "reads, etcd", "their Ranges",
		"etcd beside both"}}
	for _, one := range measuredCalls {
		sqlite, etcd := p.sqlite.took[one.name].p50(), p.etcd.took[one.name].p50()
		counts := p.etcd.counts[one.name]
		commits, reads := counts.commits.p50(), counts.reads.p50()
		puts, ranges := commits*p.floors[floorPut].p50(), reads*p.floors[floorRange].p50()
		more.add(one.name, inMs(etcd-sqlite), inCount(p.sqlite.counts[one.name].commits.p50()), inCount(commits), inMs(puts),
			inCount(reads), inMs(ranges), inMs(etcd-puts-ranges))
	}
	more.print()
}
