package main

import (
	"cmp"
	"fmt"
	"strings"
)

// A life is a record of a claim in etcd, from the revision that made it to the one that deleted it, or noted that its
// host is lost. It was made between the last read that did not see it, and the time at which the witness heard of it.
type life struct {
	Volume, Allocation, Mode, Node string
	Access                         int32
	Controlled                     bool  // the claim was published at a controller
	MadeAfter, MadeBefore          int64 // times of the history
	LeftBefore                     int64 // it was not TAKEN any more; 0: never
	HostGone                       bool  // its host had no lease when it left
	GoneAfter, GoneBefore          int64 // 0: it stands
	Revision                       int64 // in which it left
}

func (l *life) String() string {
	return fmt.Sprintf("revision %d: the claim of %s on %s (%s)", l.Revision, l.Allocation, l.Volume, l.Node)
}

func (l *life) isOf(o *operation) bool {
	return o.Volume == l.Volume && o.Allocation == l.Allocation && o.Mode == l.Mode
}

// mayEnd tells whether something may have ended the claim: a call, a failed call that is undone, or the absence of its
// host. A call that takes the claim again after its first try was undone acknowledges only what it took last.
func (l *life) mayEnd(lives []*life, operations []operation, lost []absence) bool {
	if l.HostGone && l.Controlled {
		return true
	}
	for _, one := range lost {
		if l.HostGone && one.Host == l.Node && one.From <= l.LeftBefore {
			return true
		}
	}
	acknowledged := false
	for i := range operations {
		o := &operations[i]
		if !l.isOf(o) {
			continue
		}
		if (o.Kind == kindRelease || o.Kind == kindDetach) && o.Call <= l.LeftBefore && o.Outcome != outcomeNone {
			return true
		}
		taken := (o.Kind == kindClaim || o.Kind == kindAttach) && o.Outcome == outcomeOK
		acknowledged = acknowledged || taken && o.Call < l.LeftBefore && l.isLast(lives, o.Return)
	}
	return !acknowledged
}

// isLast tells whether it is the last life of its claim that may have begun by then.
func (l *life) isLast(lives []*life, by int64) bool {
	last := (*life)(nil)
	for _, other := range lives {
		if other.Volume == l.Volume && other.Allocation == l.Allocation && other.Mode == l.Mode && other.MadeAfter < by {
			last = other
		}
	}
	return last == l
}

// mayBegin tells whether something may have made the claim: a call, or an attachment of a host that came back.
func (l *life) mayBegin(operations []operation) bool {
	for i := range operations {
		o := &operations[i]
		// An attach tries several times: it may take the claim, undo that, and be refused then.
		take := o.Kind == kindAttach || o.Kind == kindClaim && o.Outcome != outcomeRefused
		if !take || !l.isOf(o) || o.Outcome == outcomeNone || o.Call > l.MadeBefore {
			continue
		}
		if o.Kind == kindAttach && o.Outcome != outcomeRefused && !isDetached(o, operations, l.MadeAfter) {
			return true
		}
		if o.isOpen() || o.Return >= l.MadeAfter {
			return true
		}
	}
	return false
}

func isDetached(attach *operation, operations []operation, before int64) bool {
	for i := range operations {
		o := &operations[i]
		same := o.Volume == attach.Volume && o.Allocation == attach.Allocation && o.Mode == attach.Mode
		if same && o.Kind == kindDetach && o.Outcome == outcomeOK && o.Return < before {
			return true
		}
	}
	return false
}

// mayStandIn tells whether the claim may have been TAKEN at a moment of the call. The times of a life allow for the delay
// with which the witness hears of it.
func (l *life) mayStandIn(o *operation) bool {
	return l.MadeAfter <= o.Return && (l.LeftBefore == 0 || l.LeftBefore >= o.Call)
}

// checkAcknowledged gives a sentence for each answer OK to a call that takes a claim, if the claim did not stand in etcd
// during the call. The model alone accepts such an answer if nobody looks before the claim is released.
func checkAcknowledged(lives []*life, operations []operation) []string {
	var wrong []string
	for i := range operations {
		o := &operations[i]
		if o.Kind != kindClaim && o.Kind != kindAttach || o.Outcome != outcomeOK {
			continue
		}
		found, others := false, ""
		for _, l := range lives {
			if !l.isOf(o) {
				continue
			}
			found = found || l.Node == o.Node && l.Access == o.Access && l.mayStandIn(o)
			others += ", " + l.span()
		}
		if !found {
			wrong = append(wrong, fmt.Sprintf("etcd: no claim stood during the call that acknowledged it: %v; seen: %s", o,
				cmp.Or(strings.TrimPrefix(others, ", "), "never")))
		}
	}
	return wrong
}

func (l *life) span() string {
	until := "the end"
	if l.LeftBefore != 0 {
		until = fmt.Sprintf("%.3f", seconds(l.LeftBefore))
	}
	return fmt.Sprintf("as %d on %s from %.3f to %s", l.Access, l.Node, seconds(l.MadeAfter), until)
}

// checkWitnessed compares the answers with what the witness saw in etcd.
func (e *eventSource) checkWitnessed() []string {
	if e.lives == nil {
		return nil
	}
	return append(checkLives(e.lives, e.operations, e.lost), checkAcknowledged(e.lives, e.operations)...)
}

// checkLives gives a sentence for each claim that came or went without a reason.
func checkLives(lives []*life, operations []operation, lost []absence) []string {
	var wrong []string
	for _, l := range lives {
		if l.LeftBefore != 0 && !l.mayEnd(lives, operations, lost) {
			wrong = append(wrong, fmt.Sprintf("etcd: %v was acknowledged and ended, and nobody released it", l))
		}
		if !l.mayBegin(operations) {
			wrong = append(wrong, fmt.Sprintf("etcd: %v came, and nobody asked for it", l))
		}
	}
	return wrong
}

// observed gives the events of a volume as the witness saw them. They replace all that may have happened without an
// answer. An event that an answered call explains is not needed. One without a reason is left out, so that the history
// has no explanation either.
func (e *eventSource) observed(volume string) []operation {
	var found []operation
	for _, l := range e.lives {
		if l.Volume != volume {
			continue
		}
		of := operation{Volume: volume, Allocation: l.Allocation, Mode: l.Mode, Access: l.Access, Node: l.Node}
		calls := e.callsOf(l)
		if !calls.explainBegin(l) && l.mayBegin(e.operations) {
			found = append(found, e.within(kindMade, of, l.MadeAfter, l.MadeBefore))
		}
		if l.GoneBefore != 0 && !calls.explainEnd(l) && l.mayEnd(e.lives, e.operations, e.lost) {
			found = append(found, e.within(kindGone, of, l.GoneAfter, l.GoneBefore))
		}
	}
	return found
}

type claimCalls struct {
	lives       int
	takes, ends []operation // answered
	openEnds    bool
}

func (e *eventSource) callsOf(l *life) claimCalls {
	var calls claimCalls
	for _, other := range e.lives {
		if other.Volume == l.Volume && other.Allocation == l.Allocation && other.Mode == l.Mode {
			calls.lives++
		}
	}
	for _, o := range e.operations {
		if !l.isOf(&o) {
			continue
		}
		take, end := o.Kind == kindClaim || o.Kind == kindAttach, o.Kind == kindRelease || o.Kind == kindDetach
		switch {
		case take && o.Outcome == outcomeOK:
			calls.takes = append(calls.takes, o)
		case end && o.isOpen():
			calls.openEnds = true
		case end && o.Outcome == outcomeOK:
			calls.ends = append(calls.ends, o)
		}
	}
	return calls
}

func (c claimCalls) explainBegin(l *life) bool {
	return c.lives == 1 && len(c.takes) > 0 && c.takes[0].Call <= l.MadeBefore && c.takes[0].Return >= l.MadeAfter
}

func (c claimCalls) explainEnd(l *life) bool {
	return c.lives == 1 && !c.openEnds && !l.HostGone && len(c.ends) > 0 && c.ends[0].Call <= l.GoneBefore &&
		c.ends[0].Return >= l.GoneAfter
}

func (e *eventSource) within(kind string, of operation, after, before int64) operation {
	o := e.event(kind, of, after, 0)
	o.Return, o.Outcome = before, outcomeOK
	return o
}
