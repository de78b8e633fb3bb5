package main

import (
	"errors"
	"fmt"
	"sort"
	"strings"
	"syscall"
	"time"

	pb "mooring/tests/cluster/managerpb"
)

// After the faults the world is healed. Then everything that is owed must come about within this time. The manager's
// housekeeper has rounds of 30 seconds. On a machine that builds something else besides, all may stand still for minutes.
const (
	settleTime = 5 * time.Minute
	finalTime  = 30 * time.Second // deadline of a call
)

// A final is what settles at the end of a seed.
type final struct {
	world      *world
	violations []string
}

func (f *final) violate(format string, words ...any) {
	f.violations = append(f.violations, "end: "+fmt.Sprintf(format, words...))
}

// settle heals everything, and checks that no claim is left for ever and none is lost. The reads at the end are part of
// the history.
func (w *world) settle() []string {
	f := &final{world: w}
	w.heal()
	if err := w.atAll(func(m *manager) error { return m.waitUntilReady(settleTime) }); err != nil {
		f.violate("a manager does not come back: %v", err)
		return f.violations
	}
	c := w.newClient(0)
	c.number, c.home, c.time = 1000, w.managers[0], finalTime
	f.readAll(c)
	f.useAll()
	f.checkEnded(c)
	if len(f.violations) > 0 {
		return f.violations // what is left would be waited for
	}
	f.endAttachments()
	f.endClaims(c)
	f.readAll(c)
	f.claimAll(c)
	f.readLast(c)
	return f.violations
}

func (w *world) heal() {
	flushFilters()
	for _, p := range w.proxies {
		p.late.Store(0)
	}
	if w.etcd != nil {
		for m := 0; m < members; m++ {
			w.etcd.signal(m, syscall.SIGCONT)
			_ = w.etcd.start(m)
		}
	}
	for _, m := range w.managers {
		w.servePlugins(m)
		_ = m.setClock(0)
		m.signal(syscall.SIGCONT)
	}
}

func (f *final) readAll(c *client) {
	for _, volume := range f.world.volumes {
		for _, m := range f.world.managers {
			err := eventually(volume.Name+" can be read on "+m.host, settleTime, func() error {
				return c.read(volume.Name, m).problem()
			})
			f.note(err)
		}
	}
}

// endAttachments detaches everything on all hosts.
func (f *final) endAttachments() {
	err := f.world.atAll(func(m *manager) error {
		c := f.world.newClient(0)
		c.number, c.home, c.time = 2000+hostNumber(m.host), m, finalTime
		return eventually("nothing is attached on "+m.host, settleTime, func() error {
			attachments, err := m.listAttachments()
			for _, one := range attachments {
				c.detach(operation{Volume: one.Volume.GetId(), Allocation: one.Allocation,
					Mode: strings.ToLower(one.Mode.String()), Access: int32(one.Capability.GetAccess()), Node: m.host})
			}
			if err == nil && len(attachments) > 0 {
				err = fmt.Errorf("%s is attached for %s: %s", attachments[0].Volume.GetId(), attachments[0].Allocation,
					attachments[0].Problem)
			}
			return err
		})
	})
	f.note(err)
}

// endClaims releases everything that is listed, and waits until it is gone.
func (f *final) endClaims(c *client) {
	err := eventually("no claim is left", settleTime, func() error {
		claims, err := f.world.managers[0].listClaims("")
		if err != nil || len(claims) == 0 {
			return err
		}
		for _, claim := range claims {
			if claim.State == pb.Claim_TAKEN {
				via := f.world.managerOf(claim.Node)
				c.release(operation{Volume: claim.Volume.GetId(), Allocation: claim.Allocation,
					Mode: strings.ToLower(claim.Mode.String()), Access: int32(claim.Capability.GetAccess()),
					Node: claim.Node}, via)
			}
		}
		one := claims[0]
		time.Sleep(300 * time.Millisecond)
		return fmt.Errorf("%d claims: first %s of %s on %s, %v: %s", len(claims), one.Allocation, one.Volume.GetId(),
			one.Node, one.State, one.Problem)
	})
	f.note(err)
	err = eventually("the storage is free", settleTime, func() error {
		if left := f.world.storage.left(); len(left) > 0 {
			return errors.New(strings.Join(left, ", "))
		}
		return nil
	})
	f.note(err)
}

// claimAll claims and releases every volume once more, on each host.
func (f *final) claimAll(c *client) {
	for _, m := range f.world.managers {
		c.home = m
		for _, volume := range f.world.volumes {
			f.claimAndRelease(c, volume)
		}
	}
}

func (f *final) claimAndRelease(c *client, volume volumeKind) {
	c.serial++
	allocation := fmt.Sprintf("end-%s-%d", c.home.host, c.serial)
	var claim operation
	f.note(eventually(volume.Name+" can be claimed on "+c.home.host, settleTime, func() error {
		claim = c.claim(volume.Name, allocation, "write", volume.Access[0])
		if claim.Outcome == outcomeRefused {
			f.violate("%s is refused on %s, but nobody has it: %s", volume.Name, c.home.host, claim.Text)
			return nil
		}
		return claim.problem()
	}))
	f.note(eventually(volume.Name+" can be released on "+c.home.host, settleTime, func() error {
		return c.release(claim, c.home).problem()
	}))
	f.awaitFree(volume.Name)
}

func (f *final) note(err error) {
	if err != nil {
		f.violate("%v", err)
	}
}

func (f *final) awaitFree(volume string) {
	err := eventually(volume+" is free", settleTime, func() error {
		claims, err := f.world.managers[0].listClaims(volume)
		if err == nil && len(claims) > 0 {
			err = fmt.Errorf("%s has it: %s", claims[0].Allocation, claims[0].Problem)
		}
		return err
	})
	f.note(err)
}

// unique leaves each sentence once.
func unique(sentences []string) []string {
	sort.Strings(sentences)
	var found []string
	for i, sentence := range sentences {
		if i == 0 || sentence != sentences[i-1] {
			found = append(found, sentence)
		}
	}
	return found
}
