package main

import (
	"fmt"
	"sort"
	"strings"

	"github.com/anishathalye/porcupine"
)

// The model of the claims of one volume, from docs/manager.md and CSI's access modes. It shares no code with the manager.
// Access modes have the numbers of manager.proto.
const (
	singleNodeReader       = 1
	singleNodeWriter       = 2
	singleNodeSingleWriter = 3
	singleNodeMultiWriter  = 4
	multiNodeReader        = 5
	multiNodeSingleWriter  = 6
	multiNodeMultiWriter   = 7
)

type claimEntry struct {
	allocation, mode, node string
	access                 int32
	by                     int  // number of the call that took it, until it is acknowledged
	acknowledged           bool // a caller was told of it, so no failed call may undo it
}

// A claimState never changes: each step makes another one.
type claimState struct {
	claims []claimEntry // by allocation and mode
	access int32        // the access mode in use: that of the first claim; 0: unclaimed
	closed bool         // nothing is observed any more
	key    string
}

func newState(claims []claimEntry, access int32, closed bool) *claimState {
	if len(claims) == 0 {
		access = 0
	}
	s := &claimState{claims: claims, access: access, closed: closed}
	s.key = fmt.Sprint(claims, access, closed)
	return s
}

func (s *claimState) find(allocation, mode string) *claimEntry {
	for i := range s.claims {
		if s.claims[i].allocation == allocation && s.claims[i].mode == mode {
			return &s.claims[i]
		}
	}
	return nil
}

func (s *claimState) without(entry *claimEntry) *claimState {
	var left []claimEntry
	for _, other := range s.claims {
		if entry == nil || other != *entry {
			left = append(left, other)
		}
	}
	return newState(left, s.access, s.closed)
}

func (s *claimState) with(entry claimEntry) *claimState {
	claims := []claimEntry{entry}
	for _, other := range s.claims {
		if other.allocation != entry.allocation || other.mode != entry.mode {
			claims = append(claims, other)
		}
	}
	sort.Slice(claims, func(i, j int) bool {
		return claims[i].allocation+claims[i].mode < claims[j].allocation+claims[j].mode
	})
	access := s.access
	if access == 0 {
		access = entry.access
	}
	return newState(claims, access, s.closed)
}

// allowed tells whether the access mode permits the claim beside those that stand.
func (s *claimState) allowed(access int32, mode, node string) bool {
	writers, others := 0, 0
	for _, claim := range s.claims {
		if claim.mode == "write" {
			writers++
		}
		if claim.node != node {
			others++
		}
	}
	switch access {
	case singleNodeReader:
		return mode == "read" && len(s.claims) == writers
	case singleNodeWriter, singleNodeSingleWriter:
		return len(s.claims) == 0
	case singleNodeMultiWriter:
		return others == 0
	case multiNodeReader:
		return mode == "read"
	case multiNodeSingleWriter:
		return mode == "read" || writers == 0
	case multiNodeMultiWriter:
		return true
	}
	return false
}

// free tells whether the claim is allowed by its own mode, the mode in use, and that of each writer.
func (s *claimState) free(o *operation) bool {
	for _, claim := range s.claims {
		if claim.mode == "write" && !s.allowed(claim.access, o.Mode, o.Node) {
			return false
		}
	}
	return s.allowed(o.Access, o.Mode, o.Node) && (s.access == 0 || s.allowed(s.access, o.Mode, o.Node))
}

func stepClaim(s *claimState, o *operation) (bool, *claimState) {
	entry := s.find(o.Allocation, o.Mode)
	same := entry != nil && entry.node == o.Node && entry.access == o.Access
	switch o.Outcome {
	case outcomeOK:
		if same {
			return true, s.with(claimEntry{o.Allocation, o.Mode, o.Node, o.Access, 0, true})
		}
		return entry == nil && s.free(o), s.with(claimEntry{o.Allocation, o.Mode, o.Node, o.Access, 0, true})
	case outcomeRefused:
		return !same && (entry != nil || !s.free(o)), s
	}
	return maybe(s, entry == nil && s.free(o),
		func() *claimState { return s.with(claimEntry{o.Allocation, o.Mode, o.Node, o.Access, o.Number, false}) })
}

// maybe is the step of an operation that may take effect or not. One that does not is linearized after the end.
func maybe(s *claimState, possible bool, effect func() *claimState) (bool, *claimState) {
	if s.closed || !possible {
		return s.closed, s
	}
	return true, effect()
}

func stepRelease(s *claimState, o *operation) (bool, *claimState) {
	entry := s.find(o.Allocation, o.Mode)
	if o.Outcome == outcomeOK && !o.Owed {
		return true, s.without(entry)
	}
	return maybe(s, entry != nil, func() *claimState { return s.without(entry) })
}

func stepRead(s *claimState, o *operation) (bool, *claimState) {
	if len(o.Claims) != len(s.claims) {
		return false, s
	}
	for _, seen := range o.Claims {
		if entry := s.find(seen.Allocation, seen.Mode); entry == nil || entry.node != seen.Node || entry.access != seen.Access {
			return false, s
		}
	}
	return true, s
}

func step(s *claimState, o *operation) (bool, *claimState) {
	entry := s.find(o.Allocation, o.Mode)
	switch o.Kind {
	case kindClaim, kindAttach, kindRestore:
		return stepClaim(s, o)
	case kindRelease, kindDetach:
		return stepRelease(s, o)
	case kindRead:
		return stepRead(s, o)
	case kindRollback:
		mine := entry != nil && entry.by == o.Of && !entry.acknowledged
		return maybe(s, mine, func() *claimState { return s.without(entry) })
	case kindEvict:
		mine := entry != nil && entry.node == o.Node
		return maybe(s, mine, func() *claimState { return s.without(entry) })
	case kindMade: // perhaps by a call that was answered
		if entry != nil {
			return entry.node == o.Node && entry.access == o.Access, s
		}
		return s.free(o), s.with(claimEntry{o.Allocation, o.Mode, o.Node, o.Access, 0, true})
	case kindGone:
		return true, s.without(entry)
	case kindEnd:
		return true, newState(s.claims, s.access, true)
	}
	return false, s
}

var claimModel = porcupine.Model{
	Init: func() interface{} { return newState(nil, 0, false) },
	Step: func(state, input, _ interface{}) (bool, interface{}) {
		ok, next := step(state.(*claimState), input.(*operation))
		return ok, next
	},
	Equal:             func(a, b interface{}) bool { return a.(*claimState).key == b.(*claimState).key },
	DescribeOperation: func(input, _ interface{}) string { return input.(*operation).String() },
	DescribeState:     func(state interface{}) string { return strings.TrimSpace(state.(*claimState).key) },
}
