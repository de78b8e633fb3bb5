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
	alive      map[string]bool
	absences   []absence
	departures []departure
	violations []string
	lines      []string
	commits    int
	stop       context.CancelFunc
	done       chan struct{}
}

// A departure is the moment in which a claim stopped to stand.
type departure struct {
	claim    *pb.Claim
	at       int64
	revision int64
	hostGone bool // its host had no lease
}

func startWitness(cluster *etcdCluster, log *history) *witness {
	ctx, cancel := context.WithCancel(context.Background())
	w := &witness{cluster: cluster, history: log, claims: map[string]*pb.Claim{}, alive: map[string]bool{}, stop: cancel,
		done: make(chan struct{})}
	go func() {
		defer close(w.done)
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

func (w *witness) takeClaim(key string, event *mvccpb.Event) *pb.Claim {
	before := w.claims[key]
	if event.Type != mvccpb.PUT {
		w.note("deleted %s", key)
		delete(w.claims, key)
		w.depart(before)
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
	if before != nil && before.State == pb.Claim_TAKEN && claim.State != pb.Claim_TAKEN {
		w.depart(before)
	}
	if before != nil && before.Node != claim.Node {
		w.violateLocked("revision %d: the claim %s moved from %s to %s", w.revision, key, before.Node, claim.Node)
	}
	if before == nil {
		return claim
	}
	return nil
}

func (w *witness) depart(claim *pb.Claim) {
	if claim != nil && claim.State == pb.Claim_TAKEN {
		w.departures = append(w.departures, departure{claim, w.history.now(), w.revision, !w.alive[claim.Node]})
	}
}

// checkTogether checks the claims of a volume that stand at this revision.
func (w *witness) checkTogether(volume string) {
	var standing []*pb.Claim
	writers, nodes := 0, map[string]bool{}
	for _, claim := range w.claims {
		if claim.Volume.GetId() == volume && !claim.GetLost() {
			standing = append(standing, claim)
			nodes[claim.Node] = true
			if claim.Mode == pb.ClaimMode_WRITE {
				writers++
			}
		}
	}
	for _, claim := range standing {
		if wrong := wrongTogether(int32(claim.Capability.GetAccess()), len(standing), writers, len(nodes)); wrong != "" {
			w.violateLocked("revision %d: %s is claimed as %v, and has %s", w.revision, volume, claim.Capability.GetAccess(),
				wrong)
			return
		}
	}
}

func wrongTogether(access int32, all, writers, nodes int) string {
	switch access {
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

// checkDepartures looks for claims that ended although nobody may have ended them. `lost` are the hosts that were
// declared lost.
func (w *witness) checkDepartures(operations []operation, lost []absence) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for _, gone := range w.departures {
		if !w.mayDepart(gone, operations, lost) {
			w.violateLocked("revision %d: the acknowledged claim of %s on %s (%s) ended, and nobody released it",
				gone.revision, gone.claim.Allocation, gone.claim.Volume.GetId(), gone.claim.Node)
		}
	}
}

func (w *witness) mayDepart(gone departure, operations []operation, lost []absence) bool {
	controlled := gone.claim.Publish != pb.Claim_PUBLISH_NONE
	if gone.hostGone && controlled {
		return true
	}
	for _, one := range lost {
		if gone.hostGone && one.Host == gone.claim.Node && one.From <= gone.at {
			return true
		}
	}
	acknowledged := false
	for _, o := range operations {
		if o.Allocation != gone.claim.Allocation || o.Volume != gone.claim.Volume.GetId() {
			continue
		}
		if (o.Kind == kindRelease || o.Kind == kindDetach) && o.Call <= gone.at {
			return true
		}
		acknowledged = acknowledged || (o.Kind == kindClaim || o.Kind == kindAttach) && o.Outcome == outcomeOK
	}
	return !acknowledged
}

func (w *witness) end() {
	w.stop()
	<-w.done
}
