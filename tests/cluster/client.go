package main

import (
	"context"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"time"

	pb "mooring/tests/cluster/managerpb"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A client claims, releases and reads at random, one call at a time. Each claim has an allocation of its own, so that
// a late effect of a call without an answer cannot be taken for another one.
type client struct {
	world  *world
	number int
	home   *manager
	chance *rand.Rand
	held   []operation // acknowledged, and not released
	doubts []operation // claims without an answer
	serial int
	time   time.Duration // deadline of a call
}

func (w *world) newClient(number int) *client {
	return &client{world: w, number: number, home: w.managers[number%len(w.managers)],
		chance: rand.New(rand.NewSource(w.seed*1000 + int64(number))), time: callTime}
}

// run goes on until the operations are made, and the faults are over.
func (c *client) run() {
	for !c.world.isOver() {
		if !c.world.othersRest.Load() || c.home == c.world.managers[0] {
			c.act()
		}
		c.pause()
	}
}

// The pause keeps the calls spread over all faults.
func (c *client) pause() {
	time.Sleep(time.Duration(c.chance.ExpFloat64() * float64(c.world.pause())))
}

func (c *client) act() {
	dice := c.chance.Float64()
	switch {
	case len(c.doubts) > 0 && dice < 0.5:
		c.settleDoubt()
	case dice < 0.1:
		c.useTasks()
	case dice < 0.15:
		c.read(pick(c.chance, c.world.volumes).Name, c.anyManager())
	case dice < 0.19 && len(c.held) > 0:
		again := pick(c.chance, c.held)
		if again.Kind == kindClaim {
			c.claim(again.Volume, again.Allocation, again.Mode, again.Access)
		}
	case dice < 0.25:
		c.useTasks()
	case dice < 0.55 && len(c.held) > 0 || len(c.held) > 2:
		c.giveBack(c.chance.Intn(len(c.held)))
	default:
		c.take()
	}
}

func (c *client) anyManager() *manager {
	if c.chance.Float64() < 0.8 {
		return c.home
	}
	return pick(c.chance, c.world.managers)
}

func (c *client) take() {
	volume := pick(c.chance, c.world.volumes)
	access := pick(c.chance, volume.Access)
	mode := "write"
	if access == singleNodeReader || access == multiNodeReader || c.chance.Float64() < 0.4 {
		mode = "read"
	}
	c.serial++
	allocation := fmt.Sprintf("c%d-%d", c.number, c.serial)
	var o operation
	if c.chance.Float64() < 0.4 {
		o = c.attach(volume.Name, allocation, mode, access)
	} else {
		o = c.claim(volume.Name, allocation, mode, access)
	}
	switch {
	case o.Outcome == outcomeOK:
		c.held = append(c.held, o)
	case o.Outcome == outcomeUnknown:
		c.doubts = append(c.doubts, o)
	}
}

// settleDoubt repeats a claim without an answer, or releases it.
func (c *client) settleDoubt() {
	i := c.chance.Intn(len(c.doubts))
	doubt := c.doubts[i]
	c.doubts = append(c.doubts[:i:i], c.doubts[i+1:]...)
	if doubt.Kind == kindAttach {
		c.detach(doubt)
		return
	}
	if c.chance.Float64() < 0.5 {
		if again := c.claim(doubt.Volume, doubt.Allocation, doubt.Mode, doubt.Access); again.Outcome == outcomeOK {
			c.held = append(c.held, again)
			return
		}
	}
	c.release(doubt, c.anyManager())
}

func (c *client) giveBack(i int) {
	claim := c.held[i]
	c.held = append(c.held[:i:i], c.held[i+1:]...)
	if claim.Kind == kindAttach {
		c.endAttachment(claim)
	} else if o := c.release(claim, c.anyManager()); o.Outcome == outcomeNone {
		c.release(claim, c.home) // only the claim's own host can release it while that host is alive
	}
}

// record makes a call and notes its outcome.
func (c *client) record(o operation, do func(context.Context, *operation) error) operation {
	o.Client = c.number
	begun := c.world.history.begin(o)
	ctx, cancel := context.WithTimeout(context.Background(), c.time)
	err := do(ctx, begun)
	cancel()
	begun.Outcome = outcomeOf(begun.Kind, err)
	if err != nil {
		begun.Code, begun.Text = status.Code(err).String(), status.Convert(err).Message()
	}
	c.world.history.end(begun)
	if begun.Outcome == outcomeUnknown || begun.Outcome == outcomeNone {
		time.Sleep(time.Duration(100+c.chance.Intn(300)) * time.Millisecond)
	}
	return *begun
}

// Answers that say what happened. Every other error leaves it open.
var refusals = []string{"has no free", "is claimed on node", "is claimed as"}

// The manager's socket does not answer, or the manager could not begin. A manager that lost etcd in the middle of a change
// says so, in words of the connection as well.
var nothings = []string{"Error while dialing: dial unix", "cannot be used now", "is unreachable", "nothing has changed"}
var doubts = []string{"it is not known whether", "is retried in the background"}

func outcomeOf(kind string, err error) string {
	if err == nil {
		return outcomeOK
	}
	text := status.Convert(err).Message()
	if status.Code(err) == codes.FailedPrecondition {
		for _, words := range refusals {
			if strings.Contains(text, words) {
				return outcomeRefused
			}
		}
		if kind == kindRelease {
			return outcomeNone // the claim is attached, or of another host
		}
	}
	contains := func(words string) bool { return strings.Contains(text, words) }
	if slices.ContainsFunc(nothings, contains) && !slices.ContainsFunc(doubts, contains) {
		return outcomeNone
	}
	return outcomeUnknown
}

func modeOf(mode string) pb.ClaimMode {
	if mode == "read" {
		return pb.ClaimMode_READ
	}
	return pb.ClaimMode_WRITE
}

func modeWord(mode pb.ClaimMode) string {
	if mode == pb.ClaimMode_READ {
		return "read"
	}
	return "write"
}

func capability(access int32) *pb.Capability {
	return &pb.Capability{Access: pb.AccessMode(access), Attachment: pb.AttachmentMode_FILE_SYSTEM}
}

func (c *client) claim(volume, allocation, mode string, access int32) operation {
	o := operation{Kind: kindClaim, Volume: volume, Allocation: allocation, Mode: mode, Access: access, Node: c.home.host,
		Via: c.home.host}
	return c.record(o, func(ctx context.Context, _ *operation) error {
		_, err := c.home.client.ClaimVolume(ctx, &pb.ClaimVolumeRequest{Volume: &pb.VolumeKey{Id: volume},
			Allocation: allocation, Mode: modeOf(mode), Capability: capability(access)})
		return err
	})
}

func (c *client) release(claim operation, via *manager) operation {
	o := operation{Kind: kindRelease, Volume: claim.Volume, Allocation: claim.Allocation, Mode: claim.Mode,
		Access: claim.Access, Node: claim.Node, Via: via.host}
	return c.record(o, func(ctx context.Context, o *operation) error {
		answer, err := via.client.ReleaseVolume(ctx, &pb.ReleaseVolumeRequest{Volume: &pb.VolumeKey{Id: claim.Volume},
			Allocation: claim.Allocation, Mode: modeOf(claim.Mode)})
		o.Owed = len(answer.GetOwed()) > 0
		return err
	})
}

func (c *client) read(volume string, via *manager) operation {
	o := operation{Kind: kindRead, Volume: volume, Via: via.host}
	return c.record(o, func(ctx context.Context, o *operation) error {
		var claims []*pb.Claim
		if c.chance.Float64() < 0.5 {
			answer, err := via.client.ListClaims(ctx, &pb.ListClaimsRequest{Volume: &pb.VolumeKey{Id: volume}})
			if err != nil {
				return err
			}
			claims = answer.Claims
		} else {
			answer, err := via.client.GetVolume(ctx, &pb.GetVolumeRequest{Key: &pb.VolumeKey{Id: volume}})
			if err != nil {
				return err
			}
			claims = answer.Claims
		}
		o.Claims = heldOf(claims)
		return nil
	})
}

func heldOf(claims []*pb.Claim) []held {
	found := []held{}
	for _, claim := range claims {
		if claim.GetLost() {
			continue // it excludes nobody any more
		}
		found = append(found, held{claim.Allocation, modeWord(claim.Mode), claim.Node, int32(claim.Capability.GetAccess()),
			claim.State.String()})
	}
	return found
}

func (c *client) attach(volume, allocation, mode string, access int32) operation {
	o := operation{Kind: kindAttach, Volume: volume, Allocation: allocation, Mode: mode, Access: access,
		Node: c.home.host, Via: c.home.host}
	var path string
	o = c.record(o, func(ctx context.Context, _ *operation) error {
		stream, err := c.home.client.Attach(ctx, &pb.AttachRequest{Volume: &pb.VolumeKey{Id: volume},
			Allocation: allocation, Request: volume, Mode: modeOf(mode), ReadOnly: mode == "read",
			Capability: capability(access)})
		return each(stream, err, func(reply *pb.AttachReply) {
			if reply.GetDone() != nil {
				path = reply.GetDone().Source
			}
		})
	})
	if o.Outcome == outcomeOK {
		c.world.storage.startTask(o, path)
		c.world.storage.use(allocation)
	} else if isDefinite(o) {
		c.world.checkBare(o)
	}
	return o
}

func (c *client) detach(claim operation) operation {
	home := c.world.managerOf(claim.Node)
	o := operation{Kind: kindDetach, Volume: claim.Volume, Allocation: claim.Allocation, Mode: claim.Mode,
		Access: claim.Access, Node: claim.Node, Via: home.host}
	return c.record(o, func(ctx context.Context, o *operation) error {
		o.Owed = true // OK also while the controller has not confirmed it
		err := drain(home.client.Detach(ctx,
			&pb.DetachRequest{Allocation: claim.Allocation, Request: claim.Volume}))
		if err == nil {
			left, failed := home.client.ListClaims(ctx, &pb.ListClaimsRequest{Volume: &pb.VolumeKey{Id: claim.Volume},
				Allocation: claim.Allocation})
			o.Owed = failed != nil || len(left.Claims) > 0
		}
		return err
	})
}
