package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// Kinds of operations. The first five are calls of clients. The others are events of the system that the
// history has to allow at an unknown time: see events.go.
const (
	kindClaim    = "claim"
	kindRelease  = "release"
	kindRead     = "read"
	kindAttach   = "attach"
	kindDetach   = "detach"
	kindRollback = "rollback" // undoes the claim of a call that failed
	kindEvict    = "evict"    // frees a claim of a host that is gone
	kindRestore  = "restore"  // claims again for an attachment of a host that is back
	kindMade     = "made"     // the witness saw that a claim was made
	kindGone     = "gone"     // the witness saw that it ended
	kindEnd      = "end"      // from now on nothing is observed
)

// Outcomes of calls.
const (
	outcomeOK      = "ok"
	outcomeRefused = "refused" // other claims exclude it
	outcomeNone    = "none"    // it surely did nothing, and says nothing of the claims
	outcomeUnknown = "unknown" // it may take effect, now or later
)

// A held is a claim as a client sees it.
type held struct {
	Allocation string
	Mode       string // "read" or "write"
	Node       string
	Access     int32
	State      string
}

// An operation is one call, or one possible event. Times are nanoseconds since the start of the seed.
type operation struct {
	Number     int
	Client     int
	Kind       string
	Volume     string
	Allocation string `json:",omitempty"`
	Mode       string `json:",omitempty"`
	Access     int32  `json:",omitempty"`
	Node       string `json:",omitempty"` // of the claim
	Via        string `json:",omitempty"` // the manager that was asked
	Call       int64
	Return     int64
	Outcome    string
	Owed       bool   `json:",omitempty"` // a release that is not finished yet
	Of         int    `json:",omitempty"` // rollback: the number of the call that it undoes
	Claims     []held `json:",omitempty"` // read: what it saw
	Code       string `json:",omitempty"`
	Text       string `json:",omitempty"` // the error
	Narrowed   bool   `json:"-"`          // reads show that it took effect before Return
}

// problem is nil if the call was answered with OK.
func (o operation) problem() error {
	if o.Outcome == outcomeOK {
		return nil
	}
	return errors.New(o.Text)
}

// isOpen tells whether it may take effect after its return.
func (o *operation) isOpen() bool { return o.Outcome == outcomeUnknown || o.Owed }

// A history is safe from several threads.
type history struct {
	began time.Time

	mutex      sync.Mutex
	operations []operation
	faults     []fault
}

func newHistory() *history { return &history{began: time.Now()} }

func (h *history) now() int64 { return time.Since(h.began).Nanoseconds() }

// begin returns the number of a call that starts now.
func (h *history) begin(o operation) *operation {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	o.Number = len(h.operations) + 1
	o.Call = h.now()
	o.Return = -1
	o.Outcome = outcomeUnknown
	h.operations = append(h.operations, o)
	return &o
}

func (h *history) end(o *operation) {
	o.Return = h.now()
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.operations[o.Number-1] = *o
}

func (h *history) all() []operation {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return append([]operation(nil), h.operations...)
}

func (h *history) count() int {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return len(h.operations)
}

func (h *history) addFault(f fault) int {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.faults = append(h.faults, f)
	return len(h.faults) - 1
}

func (h *history) endFault(index int) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.faults[index].End = h.now()
}

func (h *history) allFaults() []fault {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return append([]fault(nil), h.faults...)
}

// A recording is a history on disk, for --check.
type recording struct {
	Seed       int64
	Settings   settings
	Volumes    []volumeKind
	Faults     []fault
	Operations []operation
	Absences   []absence
	Lost       []absence
	Lives      []*life // nil: there was no witness
	Starts     map[string][]int64
	End        int64
	Violations []string
}

func (r *recording) save(path string) error {
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o600)
}

func load(path string) (*recording, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var r recording
	return &r, json.Unmarshal(text, &r)
}

func (o *operation) String() string {
	text := fmt.Sprintf("#%d [%.3f, %.3f] client %d: %s %s", o.Number, seconds(o.Call), seconds(o.Return), o.Client, o.Kind,
		o.Volume)
	if o.Allocation != "" {
		text += fmt.Sprintf(" %s %s as %d on %s", o.Mode, o.Allocation, o.Access, o.Node)
	}
	if o.Via != "" {
		text += " via " + o.Via
	}
	text += " -> " + o.Outcome
	if o.Owed {
		text += ", owed"
	}
	if o.Of != 0 {
		text += fmt.Sprintf(" of #%d", o.Of)
	}
	if o.Kind == kindRead && o.Outcome == outcomeOK {
		text += fmt.Sprintf(" %v", o.Claims)
	}
	if o.Code != "" {
		text += " " + o.Code + ": " + o.Text
	}
	return text
}

func seconds(nanoseconds int64) float64 { return float64(nanoseconds) / 1e9 }
