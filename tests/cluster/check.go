package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/anishathalye/porcupine"
)

// checkHistory asks the checker for each volume whether its answers can be explained. The verdicts are sentences.
func checkHistory(source *eventSource, volumes []volumeKind, patience time.Duration, directory string) []string {
	var verdicts []string
	for _, volume := range volumes {
		history := historyOf(source, volume)
		began := time.Now()
		switch porcupine.CheckOperationsTimeout(claimModel, history, patience) {
		case porcupine.Ok:
		case porcupine.Illegal:
			verdicts = append(verdicts, fmt.Sprintf("history: the answers about %s cannot be explained", volume.Name))
			draw(history, volume.Name, patience, directory)
		case porcupine.Unknown:
			verdicts = append(verdicts, fmt.Sprintf("history: no verdict about %s after %v", volume.Name, patience))
		}
		if took := time.Since(began); took > time.Second {
			fmt.Printf("  the check of %s took %.1f s, for %d operations\n", volume.Name, took.Seconds(), len(history))
		}
	}
	return verdicts
}

func historyOf(source *eventSource, volume volumeKind) []porcupine.Operation {
	var history []porcupine.Operation
	add := func(o operation) {
		if o.Outcome == outcomeNone || o.Kind == kindRead && o.Outcome != outcomeOK {
			return
		}
		if o.isOpen() && !o.Narrowed {
			o.Return = source.end + 10 // it may take effect at any time
		}
		history = append(history, porcupine.Operation{ClientId: max(o.Client, 0), Input: &o, Call: o.Call, Return: o.Return})
	}
	for _, o := range allOf(source, volume) {
		add(o)
	}
	add(operation{Kind: kindEnd, Volume: volume.Name, Call: source.end, Return: source.end + 1, Outcome: outcomeOK})
	return history
}

// allOf gives the calls about a volume, and the events that happened, or may have happened, besides.
func allOf(source *eventSource, volume volumeKind) []operation {
	var all []operation
	for _, o := range source.operations {
		if o.Volume == volume.Name && (source.lives == nil || !o.isOpen()) {
			all = append(all, o)
		}
	}
	if source.lives != nil {
		return append(all, source.observed(volume.Name)...)
	}
	return narrow(append(all, source.eventsOf(volume)...))
}

// draw writes a page that shows how far the history can be explained.
func draw(history []porcupine.Operation, volume string, patience time.Duration, directory string) {
	if directory == "" {
		return
	}
	_, explained := porcupine.CheckOperationsVerbose(claimModel, history, patience)
	if err := porcupine.VisualizePath(claimModel, explained, filepath.Join(directory, volume+".html")); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	printUnexplained(explained, history)
}

// printUnexplained prints the operations around the first one that has no explanation.
func printUnexplained(explained porcupine.LinearizationInfo, history []porcupine.Operation) {
	longest := []int{}
	for _, partition := range explained.PartialLinearizations() {
		for _, partial := range partition {
			if len(partial) > len(longest) {
				longest = partial
			}
		}
	}
	done := map[int]bool{}
	for _, i := range longest {
		done[i] = true
	}
	first := -1
	for i, o := range history {
		if !done[i] && (first < 0 || o.Return < history[first].Return) {
			first = i
		}
	}
	if first < 0 {
		return
	}
	stuck := history[first].Input.(*operation)
	fmt.Printf("  not explained: %v\n", stuck)
	for _, o := range history {
		if other := o.Input.(*operation); o.Call <= history[first].Return && o.Return >= history[first].Call-2e9 && other != stuck {
			fmt.Printf("    near it: %v\n", other)
		}
	}
}
