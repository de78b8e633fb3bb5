package main

import (
	"fmt"
	"math/rand"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
)

const (
	prefix   = "/mooring/"
	callTime = 4 * time.Second // deadline of a client's call
)

var (
	programs  string // the folder of mooring-manager
	clockFile string // clock.so

	managerProgram string // a mooring-manager with a planted bug; empty: that of `programs`
)

// settings are the same for all seeds of a run.
type settings struct {
	Managers     int
	Operations   int // of a seed
	Lease        time.Duration
	RecoverAfter time.Duration
	SQLite       bool   // a single manager with its own state, to try the test itself
	Planted      string // a bug to plant: see planted.go
	Fault        string // the kind of all faults; "": at random
}

// A volumeKind is a volume of the test, with the access modes that it can be claimed with.
type volumeKind struct {
	Name       string
	Controlled bool
	Access     []int32
	Real       bool
}

func (v volumeKind) plugin() string {
	if v.Real {
		return realPlugin
	}
	if v.Controlled {
		return controllerPlugin
	}
	return nodePlugin
}

// The volumes of each seed.
var fakeVolumes = []volumeKind{
	{"one-writer", false, []int32{singleNodeWriter}, false},
	{"one-node", false, []int32{singleNodeMultiWriter}, false},
	{"mixed", false, []int32{multiNodeSingleWriter, multiNodeReader, singleNodeReader, singleNodeSingleWriter,
		multiNodeMultiWriter}, false},
	{"disk", true, []int32{singleNodeWriter}, false},
	{"disk-node", true, []int32{singleNodeMultiWriter, singleNodeReader}, false},
	{"disk-shared", true, []int32{multiNodeSingleWriter}, false},
	{"disk-many", true, []int32{multiNodeMultiWriter}, false},
	{pooledVolume, true, []int32{singleNodeWriter}, false},
}

// A volume of mooring-plugin itself, in each seed that realEvery divides.
var realVolume = volumeKind{"image", true, []int32{singleNodeWriter}, true}

// The plugins of the last host were started without the pool of this volume. They refuse each call about it.
const pooledVolume = "pooled"

const (
	realPlugin = "mooring.csi"
	realEvery  = 5
)

func hostName(number int) string { return fmt.Sprintf("h%d", number) }

func hostNumber(host string) int {
	number, _ := strconv.Atoi(strings.TrimPrefix(host, "h"))
	return number
}

func pick[T any](chance *rand.Rand, from []T) T { return from[chance.Intn(len(from))] }

// quickly: a client finds a manager that is back within a fraction of a second.
func quickly() grpc.ConnectParams {
	return grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.2,
		MaxDelay: 200 * time.Millisecond}, MinConnectTimeout: time.Second}
}
