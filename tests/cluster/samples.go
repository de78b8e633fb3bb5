package main

import (
	"fmt"
	"sort"
	"strings"
	"time"
	"unicode/utf8"
)

// samples are figures of one kind: milliseconds, or counts.
type samples []float64

func (s *samples) addTime(took time.Duration) { *s = append(*s, milliseconds(took)) }

func milliseconds(took time.Duration) float64 { return float64(took) / float64(time.Millisecond) }

// at gives the sample below which the share of all samples lies: 0.5 for the median.
func (s samples) at(share float64) float64 {
	if len(s) == 0 {
		return 0
	}
	ordered := append(samples(nil), s...)
	sort.Float64s(ordered)
	return ordered[int(share*float64(len(ordered)-1)+0.5)]
}

func (s samples) p50() float64 { return s.at(0.5) }
func (s samples) p90() float64 { return s.at(0.9) }

func verdict(holds bool) string {
	if holds {
		return "ok"
	}
	return "MISSED"
}

func inMs(value float64) string    { return fmt.Sprintf("%.2f", value) }
func inCount(value float64) string { return fmt.Sprintf("%.0f", value) }

// A table is printed as Markdown. Its first row has the titles.
type table [][]string

func (t *table) add(cells ...string) { *t = append(*t, cells) }

func (t table) print() {
	var widths []int
	for _, title := range t[0] {
		widths = append(widths, utf8.RuneCountInString(title))
	}
	for _, row := range t {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for number, row := range t {
		for i, width := range widths {
			cell := ""
			if i < len(row) {
				cell = row[i]
			}
			fmt.Printf("| %s%s ", cell, strings.Repeat(" ", width-utf8.RuneCountInString(cell)))
		}
		fmt.Println("|")
		if number == 0 {
			fmt.Println(strings.Repeat("|---", len(widths)) + "|")
		}
	}
	fmt.Println()
}
