// cluster-check makes random claims on several managers while faults happen, and checks the history of all answers.
// tests/cluster/run starts it in namespaces of its own; tests/cluster/README.md describes it.
package main

import (
	"flag"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const checkTime = 60 * time.Second // for the history of one volume

type totals struct {
	seeds, operations, violated, commits, refused int
	tasks, reads, writes, busy                    int
	outcomes                                      map[string]int
	faults                                        map[string]int
}

func main() {
	var s settings
	seeds := flag.Int("seeds", 1, "")
	first := flag.Int64("first", 1, "")
	flag.IntVar(&s.Operations, "operations", 500, "")
	flag.IntVar(&s.Managers, "managers", 0, "")
	flag.DurationVar(&s.Lease, "lease", 2*time.Second, "")
	flag.DurationVar(&s.RecoverAfter, "recover-after", 2*time.Second, "")
	flag.BoolVar(&s.SQLite, "sqlite", false, "")
	flag.StringVar(&s.Planted, "planted-bug", plantedNone, "")
	flag.StringVar(&s.Fault, "fault", "", "")
	flag.StringVar(&programs, "programs", "", "")
	flag.StringVar(&managerProgram, "manager", "", "")
	flag.StringVar(&clockFile, "clock", "", "")
	work := flag.String("work", "", "")
	keep := flag.String("keep", "", "")
	check := flag.String("check", "", "")
	selfTest := flag.Bool("self-test", false, "")
	speed := flag.Bool("speed", false, "")
	quick := flag.Bool("quick", false, "")
	flag.Parse()
	if err := checkFault(s); err != nil {
		fmt.Fprintln(os.Stderr, "cluster-check:", err)
		os.Exit(2)
	}
	switch {
	case *selfTest:
		os.Exit(testModel())
	case *speed:
		os.Exit(measureSpeed(*work, *quick))
	case *check != "":
		os.Exit(checkAgain(*check))
	}
	sum := totals{outcomes: map[string]int{}, faults: map[string]int{}}
	for seed := *first; seed < *first+int64(*seeds); seed++ {
		if err := runSeed(seed, s, *work, *keep, &sum); err != nil {
			fmt.Printf("seed %d: %v\n", seed, err)
			os.Exit(2)
		}
	}
	sum.report()
	if sum.violated > 0 {
		os.Exit(1)
	}
}

// runSeed gives an error if the seed could not be run.
func runSeed(seed int64, s settings, work, keep string, sum *totals) error {
	if s.Managers == 0 {
		s.Managers = 3 + rand.New(rand.NewSource(seed)).Intn(3)
	}
	began := time.Now()
	w := newWorld(seed, s, filepath.Join(work, fmt.Sprintf("seed-%d", seed)))
	err := w.start()
	var violations []string
	if err == nil {
		w.play()
		violations = w.settle()
		if w.witness != nil {
			err = w.witness.catchUp()
		}
	}
	w.stop()
	if err != nil {
		keepLogs(w, filepath.Join(keep, fmt.Sprintf("seed-%d", seed)))
		return fmt.Errorf("it cannot be run: %w", err)
	}
	played := time.Since(began)
	violations = append(violations, w.check(keepDirectory(keep, seed))...)
	sum.add(w, violations)
	verdict := "no violation"
	if len(violations) > 0 {
		verdict = fmt.Sprintf("%d VIOLATIONS, seen after %d operations", len(violations), w.operationsBefore())
	}
	fmt.Printf("seed %d: %d managers, %d operations, %d commits, %.0f s + %.1f s: %s; faults: %s\n", seed, s.Managers,
		w.history.count(), w.commits(), played.Seconds(), (time.Since(began) - played).Seconds(), verdict,
		describeFaults(w.history.allFaults()))
	if len(violations) > 0 || os.Getenv("KEEP_ALL") != "" {
		w.keep(violations, keepDirectory(keep, seed))
	} else {
		_ = os.RemoveAll(keepDirectory(keep, seed))
	}
	return os.RemoveAll(w.directory)
}

func keepDirectory(keep string, seed int64) string {
	directory := filepath.Join(keep, fmt.Sprintf("seed-%d", seed))
	_ = os.MkdirAll(directory, 0o700)
	return directory
}

func describeFaults(faults []fault) string {
	var words []string
	for _, f := range faults {
		words = append(words, f.Kind)
	}
	return strings.Join(words, ", ")
}

func (w *world) commits() int {
	if w.witness == nil {
		return 0
	}
	return w.witness.commits
}

func (w *world) source() *eventSource {
	source := &eventSource{operations: w.history.all(), lost: w.lost, starts: map[string][]int64{}, end: w.history.now()}
	if w.witness != nil {
		source.absences, source.lives = w.witness.absences, append([]*life{}, w.witness.lives...)
	}
	for _, m := range w.managers {
		source.starts[m.host] = m.startedAt()
	}
	return source
}

func (w *world) check(directory string) []string {
	var violations []string
	stored, _, _ := w.storage.found()
	violations = append(violations, stored...)
	source := w.source()
	if w.witness != nil {
		violations = append(violations, w.witness.violations...)
	}
	violations = append(violations, source.checkWitnessed()...)
	violations = append(violations, w.checkLosses(source)...)
	return append(unique(violations), checkHistory(source, w.volumes, checkTime, directory)...)
}

// keep saves all that explains a violation.
func (w *world) keep(violations []string, directory string) {
	for i, violation := range violations {
		if i == 10 {
			fmt.Printf("  and %d more\n", len(violations)-i)
			break
		}
		fmt.Printf("  VIOLATION in seed %d: %s\n", w.seed, violation)
	}
	source := w.source()
	r := recording{Seed: w.seed, Settings: w.settings, Volumes: w.volumes, Faults: w.history.allFaults(),
		Operations: source.operations, Absences: source.absences, Lost: source.lost, Lives: source.lives, Starts: source.starts, End: source.end,
		Violations: violations}
	if err := r.save(filepath.Join(directory, "history.json")); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	keepLogs(w, directory)
	fmt.Printf("  kept in %s; the verdict again: tests/cluster/run --check %s/history.json\n", directory, directory)
	fmt.Printf("  the same faults again: tests/cluster/run --first %d --managers %d --operations %d%s\n", w.seed,
		w.settings.Managers, w.settings.Operations, w.settings.faultFlag())
}

func (s settings) faultFlag() string {
	if s.Fault == "" {
		return ""
	}
	return " --fault " + s.Fault
}

func keepLogs(w *world, directory string) {
	_ = os.MkdirAll(directory, 0o700)
	_, lines, _ := w.storage.found()
	write(directory, "storage.log", lines)
	if w.witness != nil {
		write(directory, "etcd.log", w.witness.lines)
	}
	var calls []string
	for _, o := range w.history.all() {
		calls = append(calls, o.String())
	}
	write(directory, "operations.log", calls)
	var faults []string
	for _, f := range w.history.allFaults() {
		faults = append(faults, f.String())
	}
	write(directory, "faults.log", faults)
	for _, m := range w.managers {
		if text, err := os.ReadFile(m.path("manager.log")); err == nil {
			write(directory, m.host+".log", []string{string(text)})
		}
	}
}

func write(directory, name string, lines []string) {
	text := strings.Join(lines, "\n") + "\n"
	if err := os.WriteFile(filepath.Join(directory, name), []byte(text), 0o600); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// checkAgain asks the checker about a history that was kept.
func checkAgain(path string) int {
	r, err := load(path)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	source := &eventSource{operations: r.Operations, absences: r.Absences, lost: r.Lost, lives: r.Lives, starts: r.Starts, end: r.End}
	if until := os.Getenv("UNTIL"); until != "" {
		var left []operation
		limit, _ := time.ParseDuration(until)
		for _, o := range source.operations {
			if o.Call < limit.Nanoseconds() {
				if o.Return > limit.Nanoseconds() {
					o.Outcome = outcomeUnknown
				}
				left = append(left, o)
			}
		}
		source.operations = left
	}
	var verdicts []string
	if os.Getenv("UNTIL") == "" { // otherwise the causes of what the witness saw may be cut off
		verdicts = source.checkWitnessed()
	}
	verdicts = append(verdicts, checkHistory(source, r.Volumes, 10*time.Second, filepath.Dir(path))...)
	for _, verdict := range verdicts {
		fmt.Println(verdict)
	}
	fmt.Printf("%d violations in the history\n", len(verdicts))
	return min(len(verdicts), 1)
}

func (t *totals) add(w *world, violations []string) {
	t.seeds++
	if len(violations) > 0 {
		t.violated++
	}
	t.commits += w.commits()
	_, _, refused := w.storage.found()
	t.refused += refused
	t.tasks += len(w.storage.tasks)
	t.reads += w.storage.reads
	t.writes += w.storage.writes
	t.busy += int(w.busy.Load())
	for _, o := range w.history.all() {
		t.operations++
		word := o.Kind + " " + o.Outcome
		if o.Outcome == outcomeUnknown || o.Outcome == outcomeNone {
			word += " " + o.Code
		}
		t.outcomes[word]++
	}
	for _, f := range w.history.allFaults() {
		t.faults[f.Kind]++
	}
}

func (t *totals) report() {
	fmt.Printf("outcomes: %s\n", counts(t.outcomes))
	fmt.Printf("faults: %s\n", counts(t.faults))
	fmt.Printf("calls that the storage itself refused: %d\n", t.refused)
	fmt.Printf("tasks: %d, %d reads, %d writes, %d detaches refused to a task in use\n", t.tasks, t.reads, t.writes, t.busy)
	fmt.Printf("%d seeds, %d operations, %d commits, %d seeds with violations\n", t.seeds, t.operations, t.commits,
		t.violated)
}

func counts(of map[string]int) string {
	var words []string
	for _, key := range keys(of) {
		words = append(words, fmt.Sprintf("%s %d", key, of[key]))
	}
	return strings.Join(words, ", ")
}
