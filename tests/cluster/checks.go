package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	pb "mooring/tests/cluster/managerpb"
)

// What was refused, or has ended, leaves nothing: not at once, and not later.

const refusedFor = time.Minute // the claim of a refused call may need its controller, which may have been away

// isDefinite tells whether the answer says that the call has failed for good. Other errors leave it open.
func isDefinite(o operation) bool {
	switch o.Code {
	case "FailedPrecondition", "NotFound", "InvalidArgument", "AlreadyExists":
		return !strings.Contains(o.Text, "it is not known whether")
	}
	return false
}

// checkBare demands that no mount of the allocation is left on the host that answered.
func (w *world) checkBare(o operation) {
	for _, path := range w.mountsOf(o) {
		w.storage.mutex.Lock()
		w.storage.violate("%s of %s on %s was answered with %s, but %s is mounted", o.Kind, o.Allocation, o.Node, o.Outcome, path)
		w.storage.mutex.Unlock()
	}
}

func (w *world) mountsOf(o operation) []string {
	return slices.DeleteFunc(mountsBelow(w.managerOf(o.Node).path("mounts")), func(path string) bool {
		return !strings.Contains(path, "/"+o.Allocation+"/")
	})
}

// useTasks lets the tasks of this client work.
func (c *client) useTasks() {
	for _, one := range c.held {
		if one.Kind == kindAttach {
			c.world.storage.use(one.Allocation)
		}
	}
}

// endAttachment asks for a detach, sometimes while the task still has a file open. A detach that is refused then must
// change nothing, neither now nor later.
func (c *client) endAttachment(claim operation) {
	c.world.storage.use(claim.Allocation)
	busy := c.world.storage.endTask(claim.Allocation, c.chance.Float64() < 0.3)
	answer := c.detach(claim)
	if answer.Outcome == outcomeOK {
		c.world.checkBare(answer)
	}
	if !busy || !c.world.storage.closeFile(claim.Allocation, isDefinite(answer)) {
		return
	}
	c.world.busy.Add(1)
	c.held = append(c.held, claim)
	time.Sleep(1500 * time.Millisecond) // the manager repeats calls after a second
	c.world.storage.use(claim.Allocation)
}

// declareLostAt does not use the command line: its end would give the manager time.
func (w *world) declareLostAt(other *manager, host string) error {
	_, err := call(20*time.Second, func(ctx context.Context) (*pb.DeclareHostLostResponse, error) {
		return other.client.DeclareHostLost(ctx, &pb.DeclareHostLostRequest{Name: host})
	})
	return err
}

// checkLost claims at once, on other hosts, what the lost host had. No claim of that host may be the reason for a refusal.
func (w *world) checkLost(host string, before []*pb.Claim) {
	c := w.newClient(0)
	c.number = 3000 + hostNumber(host)
	for i, claim := range before {
		home := w.managers[i%len(w.managers)]
		if claim.Node != host || home.host == host {
			continue
		}
		c.home = home
		o := c.claim(claim.Volume.GetId(), fmt.Sprintf("lost-%s-%d-%d", host, w.history.count(), i), modeWord(claim.Mode),
			int32(claim.Capability.GetAccess()))
		if o.Outcome == outcomeRefused && strings.Contains(o.Text, "on '"+host+"'") {
			w.storage.mutex.Lock()
			w.storage.violate("%s was declared lost, but its claim still excludes that of %s: %s", host, home.host, o.Text)
			w.storage.mutex.Unlock()
		} else if o.Outcome != outcomeRefused {
			c.release(o, home)
		}
	}
}

// useAll lets the tasks that are left work once more.
func (f *final) useAll() {
	for _, allocation := range f.world.storage.alive() {
		f.world.storage.use(allocation)
		f.world.storage.endTask(allocation, false)
	}
}

// checkEnded demands that nothing is left of allocations that were refused, or were told that they have ended.
func (f *final) checkEnded(c *client) {
	ended := f.world.endedAllocations()
	f.note(eventually("nothing is left of what was refused or has ended", refusedFor, func() error {
		claims, err := f.world.managers[0].listClaims("")
		for _, claim := range claims {
			if how, there := ended[claim.Allocation]; there {
				return fmt.Errorf("%s, but it has a claim: %s on %s, %v: %s", how, claim.Volume.GetId(), claim.Node, claim.State,
					claim.Problem)
			}
		}
		for _, m := range f.world.managers {
			attachments, failed := m.listAttachments()
			if failed != nil {
				err = failed
			}
			for _, one := range attachments {
				if how, there := ended[one.Allocation]; there {
					return fmt.Errorf("%s, but it has an attachment on %s: %s", how, m.host, one.Problem)
				}
			}
		}
		for allocation, how := range ended {
			if f.world.storage.isPublished(allocation) {
				return fmt.Errorf("%s, but the driver has a target of it", how)
			}
		}
		return err
	}))
}

// endedAllocations gives the allocations that hold nothing by the last answer about them, with that answer.
func (w *world) endedAllocations() map[string]string {
	ended, open := map[string]string{}, map[string]bool{}
	for _, o := range w.history.all() {
		switch o.Kind {
		case kindClaim, kindAttach:
			if !isDefinite(o) {
				open[o.Allocation] = true
				delete(ended, o.Allocation)
			} else if !open[o.Allocation] {
				ended[o.Allocation] = o.String()
			}
		case kindDetach, kindRelease:
			if o.Outcome == outcomeOK {
				ended[o.Allocation] = o.String()
			}
		}
	}
	return ended
}

// readLast attaches each volume once more on each host, and compares its content with what was written last.
func (f *final) readLast(c *client) {
	for _, m := range f.world.managers {
		c.home = m
		for _, volume := range f.world.volumes {
			if volume.Name == pooledVolume && m == f.world.managers[len(f.world.managers)-1] {
				continue
			}
			f.attachAndRead(c, volume)
		}
	}
}

func (f *final) attachAndRead(c *client, volume volumeKind) {
	var o operation
	f.note(eventually(volume.Name+" can be attached on "+c.home.host, settleTime, func() error {
		c.serial++
		o = c.attach(volume.Name, fmt.Sprintf("last-%s-%d", c.home.host, c.serial), "write", volume.Access[0])
		if o.Outcome == outcomeOK {
			return nil
		}
		c.detach(o)
		return o.problem()
	}))
	f.world.storage.use(o.Allocation)
	f.world.storage.endTask(o.Allocation, false)
	f.note(eventually(volume.Name+" can be detached on "+c.home.host, settleTime, func() error {
		return c.detach(o).problem()
	}))
	f.awaitFree(volume.Name)
}
