package main

import (
	"fmt"
	"sort"
	"sync"
	"time"
)

// A storage is the disk array behind the fake plugins. It is the second witness: it sees which nodes can write a
// volume, whatever the managers believe.
type storage struct {
	mutex      sync.Mutex
	disks      map[string]*disk
	violations []string
	lines      []string
	refused    int // calls that the storage itself refused, as a real one does

	now       func() int64        // time of the history
	directory string              // has the content of each disk; empty: each node has its own
	registers map[string][]string // by volume: what may be its content
	tasks     map[string]*task    // by allocation
	fences    []loss
	bares     []loss
	first     int64            // time of the first violation that was seen while the clients played; 0: none
	died      map[string]int64 // by node: time of its last death
	reads     int
	writes    int
}

type publication struct {
	node     string
	access   int32
	readOnly bool
}

type disk struct {
	mixed      bool                   // it is used in several access modes, so only the claims tell what is allowed
	controlled bool                   // a node reaches it only while its controller has published it there
	attached   map[string]int32       // by node: access mode of ControllerPublishVolume
	staged     map[string]bool        // by node
	published  map[string]publication // by target path
}

func newStorage(volumes []volumeKind, now func() int64) *storage {
	s := &storage{disks: map[string]*disk{}, registers: map[string][]string{}, tasks: map[string]*task{},
		died: map[string]int64{}, now: now}
	for _, volume := range volumes {
		s.disks[volume.Name] = &disk{controlled: volume.Controlled, mixed: len(volume.Access) > 2, attached: map[string]int32{},
			staged: map[string]bool{}, published: map[string]publication{}}
	}
	return s
}

func (s *storage) note(format string, words ...any) {
	s.lines = append(s.lines, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, words...))
}

func isSingleNode(access int32) bool {
	return access >= singleNodeReader && access <= singleNodeMultiWriter
}

// attach is ControllerPublishVolume. False: the storage refuses, because another node has the volume.
func (s *storage) attach(volume, node string, access int32) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	d := s.disks[volume]
	for other, as := range d.attached {
		if other != node && (isSingleNode(access) || isSingleNode(as)) {
			s.refused++
			s.note("refused: attach %s to %s, which %s has", volume, node, other)
			return false
		}
	}
	d.attached[node] = access
	s.note("attach %s to %s", volume, node)
	s.check(volume)
	return true
}

func (s *storage) detach(volume, node string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if d := s.disks[volume]; d != nil {
		s.endTasks(volume, node, "its node is detached")
		delete(d.attached, node)
		s.note("detach %s from %s", volume, node)
	}
}

func (s *storage) stage(volume, node string) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	d := s.disks[volume]
	if _, attached := d.attached[node]; d.controlled && !attached {
		s.refused++
		s.note("refused: stage %s on %s, where it is not attached", volume, node)
		return false
	}
	d.staged[node] = true
	s.note("stage %s on %s", volume, node)
	return true
}

func (s *storage) unstage(volume, node string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	delete(s.disks[volume].staged, node)
	s.note("unstage %s on %s", volume, node)
}

func (s *storage) publish(volume, target string, p publication) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.disks[volume].published[target] = p
	s.note("publish %s on %s for %d, read-only %t", volume, p.node, p.access, p.readOnly)
	s.check(volume)
}

func (s *storage) unpublish(volume, target string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if p, there := s.disks[volume].published[target]; there {
		s.note("unpublish %s on %s", volume, p.node)
	}
	delete(s.disks[volume].published, target)
}

// nodeGone is the death of a node: nothing there writes any more.
func (s *storage) nodeGone(node string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.note("node %s is dead", node)
	s.died[node] = s.now()
	s.endTasks("", node, "its node is dead")
	for _, d := range s.disks {
		delete(d.staged, node)
		for target, p := range d.published {
			if p.node == node {
				delete(d.published, target)
			}
		}
	}
}

// check is called with the mutex held, after each change that gives a node more.
func (s *storage) check(volume string) {
	d := s.disks[volume]
	nodes, writers, single := map[string]bool{}, map[string]int{}, false
	writes, exclusive := 0, false
	for _, p := range d.published {
		if _, attached := d.attached[p.node]; d.controlled && !attached {
			continue // its node cannot reach the volume any more
		}
		nodes[p.node] = true
		single = single || isSingleNode(p.access)
		exclusive = exclusive || p.access == singleNodeWriter || p.access == singleNodeSingleWriter ||
			p.access == multiNodeSingleWriter
		if !p.readOnly {
			writers[p.node]++
			writes++
		}
	}
	if d.mixed {
		return
	}
	if single && len(nodes) > 1 {
		s.violate("%s is of a single node, and published on %v", volume, keys(nodes))
	}
	if exclusive && writes > 1 {
		s.violate("%s has one writer, and is published for writing on %v", volume, keys(writers))
	}
}

func (s *storage) violate(format string, words ...any) {
	text := "storage: " + fmt.Sprintf(format, words...)
	s.note("VIOLATION: %s", text)
	s.violations = append(s.violations, text)
	if s.first == 0 {
		s.first = s.now()
	}
}

func (s *storage) found() ([]string, []string, int) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return append([]string(nil), s.violations...), append([]string(nil), s.lines...), s.refused
}

// attachedTo lists "volume on node" for all that is left at the controller or on nodes.
func (s *storage) left() []string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var found []string
	for volume, d := range s.disks {
		for node := range d.attached {
			found = append(found, volume+" is attached to "+node)
		}
		for node := range d.staged {
			found = append(found, volume+" is staged on "+node)
		}
		for _, p := range d.published {
			found = append(found, volume+" is published on "+p.node)
		}
	}
	sort.Strings(found)
	return found
}

func keys[V any](m map[string]V) []string {
	var found []string
	for key := range m {
		found = append(found, key)
	}
	sort.Strings(found)
	return found
}
