package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// A task stands for the programs of an allocation whose attach was acknowledged. It reads and writes at the path that
// the manager named, until its client asks for the detach, or its host dies.
type task struct {
	volume, allocation, node, path string

	writes  bool
	alone   bool // the access mode permits no other writer
	over    bool
	content string   // that it read or wrote last
	held    *os.File // keeps the mount busy
}

const contentFile = "content"

// startTask is called for an attach that was answered with OK.
func (s *storage) startTask(o operation, path string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.registers[o.Volume] == nil {
		s.registers[o.Volume] = []string{""}
	}
	alone := o.Access == singleNodeWriter || o.Access == singleNodeSingleWriter || o.Access == multiNodeSingleWriter
	t := &task{volume: o.Volume, allocation: o.Allocation, node: o.Node, path: path, writes: o.Mode == "write",
		alone: alone}
	if d := s.disks[o.Volume]; d != nil && d.controlled {
		_, attached := d.attached[o.Node]
		t.over = !attached // freed between the answer and now
	}
	t.over = t.over || s.died[o.Node] > o.Call
	s.tasks[o.Allocation] = t
}

// endTask is called before its client asks for the detach. Busy: a file stays open. False: it had ended before.
func (s *storage) endTask(allocation string, busy bool) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	t := s.tasks[allocation]
	if t == nil || t.over {
		return false
	}
	t.over = true
	if busy {
		t.held, _ = os.Open(t.path)
	}
	return t.held != nil
}

// closeFile ends the use that keeps the mount busy. Resumes: its detach was refused, so the task goes on. False: its
// host died meanwhile, or the volume was taken from it.
func (s *storage) closeFile(allocation string, resumes bool) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	t := s.tasks[allocation]
	if t == nil || t.held == nil {
		return false
	}
	t.close()
	t.over = !resumes
	return resumes
}

func (t *task) close() {
	if t.held != nil {
		_ = t.held.Close()
		t.held = nil
	}
}

// endTasks is called with the mutex held, when a node is dead or does not reach a volume. No volume: all of them.
func (s *storage) endTasks(volume, node string, why string) {
	for _, t := range s.tasks {
		if t.node != node || volume != "" && t.volume != volume || t.over && t.held == nil {
			continue
		}
		if volume != "" && !t.over {
			s.fences = append(s.fences, loss{volume, node, t.allocation, s.now()})
		}
		s.note("the task of %s on %s ends: %s", t.allocation, node, why)
		t.close()
		t.over = true
	}
}

// A loss is a node that lost a volume while a task of it was alive: its controller detached it, or its path is bare.
type loss struct {
	volume, node, allocation string
	at                       int64
}

// use lets a task read, and then write if it may. The storage serves one task at a time, so that each content that is
// read must be the one that was written last.
func (s *storage) use(allocation string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	t := s.tasks[allocation]
	if t == nil || t.over {
		return
	}
	if !isMounted(t.path) {
		t.over = true
		if s.disks[t.volume] == nil {
			s.note("the volume of %s on %s is gone", t.allocation, t.node) // mooring-plugin does not tell why
			return
		}
		s.note("the path of %s on %s is bare", t.allocation, t.node)
		s.bares = append(s.bares, loss{t.volume, t.node, t.allocation, s.now()})
		return
	}
	s.read(t)
	if t.writes && !t.over {
		s.write(t)
	}
}

func (s *storage) read(t *task) {
	seen, err := os.ReadFile(filepath.Join(t.path, contentFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.note("%s cannot read %s: %v", t.allocation, t.volume, err)
		return
	}
	s.reads++
	content := string(seen)
	if !slices.Contains(s.registers[t.volume], content) {
		s.violate("%s on %s reads %q in %s, but %q was written last", t.allocation, t.node, content, t.volume,
			s.registers[t.volume])
	}
	if t.writes && t.alone && t.content != "" && !strings.HasPrefix(content, t.allocation+" ") {
		s.violate("%s on %s is the only writer of %s, and sees %q in place of its own %q", t.allocation, t.node, t.volume,
			content, t.content)
	}
	s.registers[t.volume] = []string{content}
}

// write replaces the content, and syncs it. After an error the old content or the new one is right.
func (s *storage) write(t *task) {
	s.writes++
	content := fmt.Sprintf("%s %d", t.allocation, s.writes)
	s.registers[t.volume] = append(s.registers[t.volume], content)
	file, err := os.OpenFile(filepath.Join(t.path, contentFile), os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = file.WriteString(content)
		err = errors.Join(err, file.Truncate(int64(len(content))), file.Sync(), file.Close())
	}
	if err != nil {
		s.violate("%s on %s cannot write %s: %v", t.allocation, t.node, t.volume, err)
		return
	}
	t.content = content
	s.registers[t.volume] = []string{content}
}

// isAlive tells whether a task may still use its volume.
func (s *storage) isAlive(allocation string) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	t := s.tasks[allocation]
	return t != nil && !t.over
}

// alive lists the allocations whose tasks have not ended.
func (s *storage) alive() []string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var found []string
	for _, allocation := range keys(s.tasks) {
		if !s.tasks[allocation].over {
			found = append(found, allocation)
		}
	}
	return found
}

// isPublished tells whether the driver has a target of the allocation.
func (s *storage) isPublished(allocation string) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, d := range s.disks {
		for target := range d.published {
			if strings.Contains(target, "/"+allocation+"/") {
				return true
			}
		}
	}
	return false
}

// makeDisks mounts the content that all nodes share.
func (s *storage) makeDisks() error {
	if s.directory == "" {
		return nil
	}
	for volume := range s.disks {
		path := filepath.Join(s.directory, volume)
		if err := os.MkdirAll(path, 0o700); err != nil {
			return err
		}
		if err := syscall.Mount(volume, path, "tmpfs", 0, "size=64k"); err != nil {
			return err
		}
	}
	return nil
}

// checkLosses gives the tasks that lost their volume without a reason.
func (w *world) checkLosses(source *eventSource) []string {
	var violations []string
	violate := func(l loss, format string, words ...any) {
		if w.storage.first == 0 || w.storage.first > l.at {
			w.storage.first = l.at
		}
		violations = append(violations, "data: "+fmt.Sprintf(format, words...))
	}
	for _, l := range w.storage.fences {
		if !source.wasAway(l.node, l.at) {
			violate(l, "%s was detached from %s at %.3f, but %s still used it, and its host was not away", l.volume, l.node,
				seconds(l.at), l.allocation)
		}
	}
	for _, l := range w.storage.bares {
		if !source.wasGivenUp(l) {
			violate(l, "%s has %s on %s, and nobody ended that, but its path is bare at %.3f", l.allocation, l.volume, l.node,
				seconds(l.at))
		}
	}
	return violations
}

// wasGivenUp tells whether another host took the claim while this one had no lease. A host that comes back unmounts such
// a volume, and may do so before the controller detaches it.
func (e *eventSource) wasGivenUp(l loss) bool {
	last := (*life)(nil)
	for _, one := range e.lives {
		if one.Volume == l.volume && one.Allocation == l.allocation && one.Node == l.node && one.MadeAfter <= l.at {
			last = one
		}
	}
	return last != nil && last.HostGone && last.LeftBefore != 0 && last.LeftBefore <= l.at+witnessDelay
}

func (e *eventSource) wasAway(host string, at int64) bool {
	for _, one := range append(append([]absence{}, e.absences...), e.lost...) {
		if one.Host == host && one.From <= at+witnessDelay {
			return true
		}
	}
	return false
}

// operationsBefore gives the number of calls that had begun when the first violation was seen.
func (w *world) operationsBefore() int {
	all := w.history.all()
	for i, o := range all {
		if w.storage.first > 0 && o.Call > w.storage.first {
			return i
		}
	}
	return len(all)
}
