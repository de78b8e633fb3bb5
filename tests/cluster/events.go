package main

import "sort"

// A release, an eviction or a restoration may happen in the system without a call. This file derives all that may
// happen from the history and the faults. Each such event may take effect at any time after its cause, or never.

// An absence is a time in which a host had no lease in etcd.
type absence struct {
	Host     string
	From, To int64 // as seen by the witness; To -1: it did not end
}

// The witness may learn of the end of a lease so much later.
const witnessDelay = 2e9

type eventSource struct {
	operations []operation
	absences   []absence
	lost       []absence // From: when somebody said that the host is lost
	lives      []*life   // nil: there was no witness
	starts     map[string][]int64
	end        int64
	next       int
}

// eventsOf returns the possible events of one volume.
func (e *eventSource) eventsOf(volume volumeKind) []operation {
	var found []operation
	claims := e.claimsOf(volume.Name)
	for _, claim := range claims {
		for _, o := range claim.calls {
			attached := o.Kind == kindAttach
			if o.Outcome == outcomeUnknown && (attached || o.Kind == kindClaim && volume.Controlled) {
				found = append(found, e.event(kindRollback, o, o.Call, o.Number))
			}
		}
		evictions := e.evictions(volume, claim)
		if len(evictions) > 0 {
			found = append(append(found, evictions...), e.restorations(claim)...)
		}
	}
	return found
}

// A claimLife has all calls that are about one claim.
type claimLife struct {
	calls            []operation
	first            operation
	mayBegin, mayEnd int64 // the claim may stand only in between
}

func (e *eventSource) claimsOf(volume string) []*claimLife {
	lives := map[string]*claimLife{}
	var order []string
	for _, o := range e.operations {
		if o.Volume != volume || o.Allocation == "" {
			continue
		}
		key := o.Allocation + "/" + o.Mode
		life := lives[key]
		if life == nil {
			life = &claimLife{first: o, mayBegin: o.Call, mayEnd: -1}
			lives[key] = life
			order = append(order, key)
		}
		life.calls = append(life.calls, o)
		if (o.Kind == kindRelease || o.Kind == kindDetach) && o.Outcome == outcomeOK && !o.Owed {
			life.mayEnd = o.Return
		}
	}
	sort.Strings(order)
	var found []*claimLife
	for _, key := range order {
		found = append(found, lives[key])
	}
	return found
}

func (e *eventSource) evictions(volume volumeKind, claim *claimLife) []operation {
	var found []operation
	overlaps := func(a absence) bool {
		return a.Host == claim.first.Node && (claim.mayEnd < 0 || claim.mayEnd > a.From-witnessDelay) &&
			(a.To < 0 || claim.mayBegin < a.To)
	}
	for _, a := range e.absences {
		if volume.Controlled && overlaps(a) {
			found = append(found, e.event(kindEvict, claim.first, max(a.From-witnessDelay, claim.mayBegin), 0))
		}
	}
	for _, a := range e.lost {
		if overlaps(a) {
			found = append(found, e.event(kindEvict, claim.first, max(a.From, claim.mayBegin), 0))
		}
	}
	return found
}

// A manager that starts, or has a lease again, mounts what was attached, and takes claims for it.
func (e *eventSource) restorations(claim *claimLife) []operation {
	if claim.first.Kind != kindAttach {
		return nil
	}
	var found []operation
	times := append([]int64(nil), e.starts[claim.first.Node]...)
	for _, a := range e.absences {
		if a.Host == claim.first.Node && a.To >= 0 {
			times = append(times, a.To)
		}
	}
	for _, at := range times {
		if at > claim.mayBegin && (claim.mayEnd < 0 || at < claim.mayEnd) {
			found = append(found, e.event(kindRestore, claim.first, at-witnessDelay, 0))
		}
	}
	return found
}

func (e *eventSource) event(kind string, of operation, at int64, call int) operation {
	e.next++
	return operation{Number: 1000000 + e.next, Client: -1, Kind: kind, Volume: of.Volume, Allocation: of.Allocation,
		Mode: of.Mode, Access: of.Access, Node: of.Node, Call: max(at, of.Call), Return: -1, Outcome: outcomeUnknown,
		Of: call}
}
