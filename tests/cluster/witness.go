package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	pb "mooring/tests/cluster/managerpb"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"
)

// A witness follows every revision of etcd, and checks each: two writers must not stand side by side for a moment that
// no client saw. It also notes when hosts had no lease.
type witness struct {
	cluster *etcdCluster
	history *history

	mutex      sync.Mutex
	revision   int64 // the last one that it saw
	claims     map[string]*pb.Claim
	inUse      map[string]int32 // by volume
	alive      map[string]bool
	absences   []absence
	lives      []*life
	standing   map[string]*life // by key
	reads      []linearRead     // of the last revisions, in their order
	violations []string
	lines      []string
	commits    int
	stop       context.CancelFunc
	done       sync.WaitGroup
}

// A linearRead began at a time and saw a revision: later revisions were made after that time. Messages of a watch do not
// tell this, because a member that lags behind sends them, too.
type linearRead struct{ at, revision int64 }

func startWitness(cluster *etcdCluster, log *history) *witness {
	ctx, cancel := context.WithCancel(context.Background())
	w := &witness{cluster: cluster, history: log, claims: map[string]*pb.Claim{}, inUse: map[string]int32{}, standing: map[string]*life{}, alive: map[string]bool{}, stop: cancel}
	w.done.Add(2)
	go func() {
		defer w.done.Done()
		w.readAlong(ctx)
	}()
	go func() {
		defer w.done.Done()
		for member := 0; ctx.Err() == nil; member = (member + 1) % members {
			w.follow(ctx, member)
			time.Sleep(20 * time.Millisecond)
		}
	}()
	return w
}

func (w *witness) seen() int64 {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.revision
}

// follow reads from one member until it is silent for a moment.
func (w *witness) follow(ctx context.Context, member int) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := etcdserverpb.NewWatchClient(w.cluster.admin[member]).Watch(ctx)
	if err != nil {
		return
	}
	begin := &etcdserverpb.WatchRequest_CreateRequest{CreateRequest: &etcdserverpb.WatchCreateRequest{Key: []byte(prefix),
		RangeEnd: endOf(prefix), StartRevision: w.seen() + 1}}
	if stream.Send(&etcdserverpb.WatchRequest{RequestUnion: begin}) != nil {
		return
	}
	silence := time.AfterFunc(1500*time.Millisecond, cancel)
	defer silence.Stop()
	go func() {
		for ctx.Err() == nil {
			time.Sleep(300 * time.Millisecond)
			progress := &etcdserverpb.WatchRequest_ProgressRequest{ProgressRequest: &etcdserverpb.WatchProgressRequest{}}
			_ = stream.Send(&etcdserverpb.WatchRequest{RequestUnion: progress})
		}
	}()
	for {
		answer, err := stream.Recv()
		if err != nil || answer.Canceled {
			if answer != nil && answer.CompactRevision > w.seen() {
				w.violate("the witness missed revisions: etcd was compacted to %d", answer.CompactRevision)
				cancel()
			}
			return
		}
		silence.Reset(1500 * time.Millisecond)
		w.take(answer.Events)
	}
}

// take gets events in the order of their revisions, and all of a revision together.
func (w *witness) take(events []*mvccpb.Event) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for i := 0; i < len(events); {
		end := i
		for end < len(events) && events[end].Kv.ModRevision == events[i].Kv.ModRevision {
			end++
		}
		if events[i].Kv.ModRevision > w.revision {
			w.takeRevision(events[i:end])
		}
		i = end
	}
}

func (w *witness) takeRevision(events []*mvccpb.Event) {
	w.revision = events[0].Kv.ModRevision
	w.commits++
	touched := map[string]bool{}
	var created []*pb.Claim
	for _, event := range events {
		key := strings.TrimPrefix(string(event.Kv.Key), prefix)
		switch {
		case strings.HasPrefix(key, "live/"):
			w.takeLive(strings.TrimPrefix(key, "live/"), event.Type == mvccpb.PUT)
		case strings.HasPrefix(key, "shared/claims/"):
			touched[strings.Split(key, "/")[3]] = true
			if claim := w.takeClaim(key, event); claim != nil {
				created = append(created, claim)
			}
		case strings.HasPrefix(key, "shared/volumes/"):
			w.takeVolume(strings.Split(key, "/")[3], event)
		default:
			w.note("%v %s", event.Type, key)
		}
	}
	for _, claim := range created {
		if !w.alive[claim.Node] {
			w.violateLocked("revision %d: %s claims %s on %s, which has no lease", w.revision, claim.Allocation,
				claim.Volume.GetId(), claim.Node)
		}
	}
	for volume := range touched {
		w.checkTogether(volume)
	}
}

func (w *witness) note(format string, words ...any) {
	w.lines = append(w.lines,
		fmt.Sprintf("%.3f r%d ", seconds(w.history.now()), w.revision)+fmt.Sprintf(format, words...))
}

func (w *witness) takeLive(host string, put bool) {
	w.note("live/%s %t", host, put)
	if put == w.alive[host] {
		return
	}
	w.alive[host] = put
	if !put {
		w.absences = append(w.absences, absence{host, w.history.now(), -1})
		return
	}
	for i := range w.absences {
		if w.absences[i].Host == host && w.absences[i].To < 0 {
			w.absences[i].To = w.history.now()
		}
	}
}

func (w *witness) takeVolume(name string, event *mvccpb.Event) {
	volume := &pb.Volume{}
	if err := proto.Unmarshal(event.Kv.Value, volume); err != nil {
		w.violateLocked("volume %s cannot be read: %v", name, err)
	}
	w.inUse[name] = int32(volume.GetInUse().GetAccess())
}

func (w *witness) takeClaim(key string, event *mvccpb.Event) *pb.Claim {
	before := w.claims[key]
	if event.Type != mvccpb.PUT {
		w.note("deleted %s", key)
		delete(w.claims, key)
		w.leave(key)
		w.vanish(key)
		return nil
	}
	claim := &pb.Claim{}
	if err := proto.Unmarshal(event.Kv.Value, claim); err != nil {
		w.violateLocked("%s cannot be read: %v", key, err)
		return nil
	}
	w.note("claim %s on %s: %v, %v, kept %t, lost %t", key, claim.Node, claim.State, claim.Publish, claim.Kept,
		claim.GetLost())
	w.claims[key] = claim
	if before == nil {
		w.arrive(key, claim)
	}
	w.standing[key].Controlled = claim.Publish != pb.Claim_PUBLISH_NONE
	if claim.State != pb.Claim_TAKEN {
		w.leave(key)
	}
	if claim.GetLost() {
		w.vanish(key)
	}
	if before != nil && before.Node != claim.Node {
		w.violateLocked("revision %d: the claim %s moved from %s to %s", w.revision, key, before.Node, claim.Node)
	}
	if before == nil {
		return claim
	}
	return nil
}

func (w *witness) readAlong(ctx context.Context) {
	for ; ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
		at := w.history.now()
		revision, err := w.cluster.revision()
		if err == nil {
			w.mutex.Lock()
			w.reads = append(w.reads, linearRead{at, revision})
			w.mutex.Unlock()
		}
	}
}

// earliest gives the time of the last read that did not see this revision.
func (w *witness) earliest() int64 {
	for len(w.reads) > 1 && w.reads[1].revision < w.revision {
		w.reads = w.reads[1:]
	}
	if len(w.reads) == 0 || w.reads[0].revision >= w.revision {
		return 0
	}
	return w.reads[0].at
}

func (w *witness) arrive(key string, claim *pb.Claim) {
	l := &life{Volume: claim.Volume.GetId(), Allocation: claim.Allocation, Mode: modeWord(claim.Mode), Node: claim.Node,
		Access: int32(claim.Capability.GetAccess()), MadeAfter: w.earliest(), MadeBefore: w.history.now(),
		Revision: w.revision}
	w.lives = append(w.lives, l)
	w.standing[key] = l
}

func (w *witness) leave(key string) {
	if l := w.standing[key]; l != nil && l.LeftBefore == 0 {
		l.LeftBefore, l.HostGone, l.Revision = w.history.now(), !w.alive[l.Node], w.revision
	}
}

func (w *witness) vanish(key string) {
	if l := w.standing[key]; l != nil && l.GoneBefore == 0 {
		l.GoneAfter, l.GoneBefore = max(w.earliest(), l.MadeAfter), w.history.now()
	}
	if w.claims[key] == nil {
		delete(w.standing, key)
	}
}

// checkTogether checks the claims of a volume that stand at this revision.
func (w *witness) checkTogether(volume string) {
	standing, writers, nodes := 0, 0, map[string]bool{}
	for _, claim := range w.claims {
		if claim.Volume.GetId() == volume && !claim.GetLost() {
			standing++
			nodes[claim.Node] = true
			if claim.Mode == pb.ClaimMode_WRITE {
				writers++
			}
		}
	}
	access := w.inUse[volume]
	if wrong := wrongTogether(access, standing, writers, len(nodes)); wrong != "" {
		w.violateLocked("revision %d: %s is in use as %v, and has %s", w.revision, volume, pb.AccessMode(access), wrong)
	}
}

func wrongTogether(access int32, all, writers, nodes int) string {
	switch access {
	case 0:
		if all > 0 {
			return fmt.Sprintf("%d claims", all)
		}
	case singleNodeReader:
		if all-writers > 1 {
			return fmt.Sprintf("%d readers", all-writers)
		}
	case singleNodeWriter, singleNodeSingleWriter:
		if all > 1 {
			return fmt.Sprintf("%d claims", all)
		}
	case singleNodeMultiWriter:
		if nodes > 1 {
			return fmt.Sprintf("claims of %d nodes", nodes)
		}
	case multiNodeSingleWriter:
		if writers > 1 {
			return fmt.Sprintf("%d writers", writers)
		}
	}
	return ""
}

func (w *witness) violate(format string, words ...any) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.violateLocked(format, words...)
}

func (w *witness) violateLocked(format string, words ...any) {
	text := "etcd: " + fmt.Sprintf(format, words...)
	w.note("VIOLATION: %s", text)
	w.violations = append(w.violations, text)
}

// catchUp waits until it has seen everything.
func (w *witness) catchUp() error {
	return eventually("the witness sees the last revision", 20*time.Second, func() error {
		found, err := w.cluster.list(prefix + "live/")
		if err == nil && found.Header.Revision > w.seen() {
			err = fmt.Errorf("it saw %d of %d", w.seen(), found.Header.Revision)
		}
		return err
	})
}

func (w *witness) end() {
	w.stop()
	w.done.Wait()
}
