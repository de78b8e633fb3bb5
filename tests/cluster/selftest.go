package main

import "fmt"

// testModel checks the checker: histories that are right, and histories with a fault that it must find.
func testModel() int {
	failed := 0
	for _, test := range modelTests {
		for i := range test.calls {
			test.calls[i].Number = i + 1
		}
		for _, l := range test.lives {
			l.Volume, l.Mode, l.Access = "v", "write", singleNodeWriter
		}
		source := &eventSource{operations: test.calls, absences: test.absences, lost: test.lost, lives: test.lives, end: 1e12}
		verdicts := source.checkWitnessed()
		for _, l := range test.bares {
			if !source.wasGivenUp(l) {
				verdicts = append(verdicts, "its path is bare")
			}
		}
		verdicts = append(verdicts, checkHistory(source, []volumeKind{{Name: "v", Controlled: test.controlled}}, checkTime, "")...)
		if (len(verdicts) == 0) != test.right {
			failed++
			fmt.Printf("FAILED  %s: %v\n", test.name, verdicts)
		}
	}
	fmt.Printf("%d histories, %d with a wrong verdict\n", len(modelTests), failed)
	return min(failed, 1)
}

type modelTest struct {
	name       string
	right      bool
	controlled bool
	calls      []operation
	absences   []absence
	lost       []absence
	lives      []*life // what the witness saw
	bares      []loss  // paths that were found bare while their tasks were alive
}

const second = int64(1e9)

func made(kind, allocation, mode, node string, access int32, from, to int64, outcome string) operation {
	return operation{Kind: kind, Volume: "v", Allocation: allocation, Mode: mode, Node: node, Access: access,
		Call: from * second, Return: to * second, Outcome: outcome}
}

func seen(from, to int64, claims ...held) operation {
	return operation{Kind: kindRead, Volume: "v", Call: from * second, Return: to * second, Outcome: outcomeOK, Claims: claims}
}

func writes(allocation, node string, access int32) held {
	return held{Allocation: allocation, Mode: "write", Node: node, Access: access}
}

func lived(allocation, node string, made, gone int64) *life {
	return &life{Allocation: allocation, Node: node, MadeAfter: (made - 1) * second, MadeBefore: made * second,
		LeftBefore: gone * second, GoneAfter: max(gone-1, 0) * second, GoneBefore: gone * second}
}

// givenUp is a life that another host ended while its own host had no lease.
func givenUp(allocation, node string, made, gone int64) *life {
	l := lived(allocation, node, made, gone)
	l.HostGone, l.Controlled = true, true
	return l
}

func bareAt(allocation, node string, at int64) []loss {
	return []loss{{"v", node, allocation, at * second}}
}

func owed(o operation) operation {
	o.Owed = true
	return o
}

var modelTests = []modelTest{
	{name: "a claim after a release", right: true, calls: []operation{
		made(kindClaim, "a", "write", "h0", singleNodeWriter, 1, 2, outcomeOK),
		made(kindRelease, "a", "write", "h0", singleNodeWriter, 3, 4, outcomeOK),
		made(kindClaim, "b", "write", "h1", singleNodeWriter, 5, 6, outcomeOK)}},
	{name: "two writers", right: false, calls: []operation{
		made(kindClaim, "a", "write", "h0", singleNodeWriter, 1, 2, outcomeOK),
		made(kindClaim, "b", "write", "h1", singleNodeWriter, 3, 4, outcomeOK)}},
	{name: "two writers of a volume for many nodes", right: false, calls: []operation{
		made(kindClaim, "a", "write", "h0", multiNodeSingleWriter, 1, 2, outcomeOK),
		made(kindClaim, "b", "write", "h1", multiNodeSingleWriter, 3, 4, outcomeOK)}},
	{name: "writers on two nodes of a volume for one", right: false, calls: []operation{
		made(kindClaim, "a", "write", "h0", singleNodeMultiWriter, 1, 2, outcomeOK),
		made(kindClaim, "b", "write", "h0", singleNodeMultiWriter, 3, 4, outcomeOK),
		made(kindClaim, "c", "write", "h1", singleNodeMultiWriter, 5, 6, outcomeOK)}},
	{name: "a refusal while another has it", right: true, calls: []operation{
		made(kindClaim, "a", "write", "h0", singleNodeWriter, 1, 2, outcomeOK),
		made(kindClaim, "b", "write", "h1", singleNodeWriter, 3, 4, outcomeRefused)}},
	{name: "a refusal without a reason", right: false, calls: []operation{
		made(kindClaim, "b", "write", "h1", singleNodeWriter, 3, 4, outcomeRefused)}},
	{name: "a claim that is left for ever", right: false, calls: []operation{
		made(kindClaim, "a", "write", "h0", singleNodeWriter, 1, 2, outcomeOK),
		made(kindRelease, "a", "write", "h0", singleNodeWriter, 3, 4, outcomeOK),
		made(kindClaim, "b", "write", "h1", singleNodeWriter, 5, 6, outcomeRefused)}},
	{name: "a lost claim", right: false, calls: []operation{
		made(kindClaim, "a", "write", "h0", singleNodeWriter, 1, 2, outcomeOK), seen(3, 4)}},
	{name: "an old read", right: false, calls: []operation{
		made(kindClaim, "a", "write", "h0", singleNodeWriter, 1, 2, outcomeOK),
		made(kindRelease, "a", "write", "h0", singleNodeWriter, 3, 4, outcomeOK),
		seen(5, 6, writes("a", "h0", singleNodeWriter))}},
	{name: "a call without an answer that took effect later", right: true, calls: []operation{
		made(kindClaim, "a", "write", "h0", singleNodeWriter, 1, 2, outcomeUnknown), seen(3, 4),
		seen(5, 6, writes("a", "h0", singleNodeWriter))}},
	{name: "a failed call that undoes an acknowledged claim", right: false, controlled: true, calls: []operation{
		made(kindClaim, "a", "write", "h0", singleNodeWriter, 1, 2, outcomeUnknown),
		made(kindClaim, "a", "write", "h0", singleNodeWriter, 3, 4, outcomeOK), seen(5, 6)}},
	{name: "a failed call that is undone", right: true, controlled: true, calls: []operation{
		made(kindClaim, "a", "write", "h0", singleNodeWriter, 1, 2, outcomeUnknown),
		seen(3, 4, writes("a", "h0", singleNodeWriter)), seen(5, 6)}},
	{name: "a release that is owed", right: true, calls: []operation{
		made(kindClaim, "a", "write", "h0", singleNodeWriter, 1, 2, outcomeOK),
		owed(made(kindRelease, "a", "write", "h0", singleNodeWriter, 3, 4, outcomeOK)),
		seen(5, 6, writes("a", "h0", singleNodeWriter)), seen(7, 8)}},
	{name: "a claim of an unreachable host, detached by the controller", right: true, controlled: true,
		absences: []absence{{"h0", 4 * second, 20 * second}}, calls: []operation{
			made(kindClaim, "a", "write", "h0", singleNodeWriter, 1, 2, outcomeOK),
			made(kindClaim, "b", "write", "h1", singleNodeWriter, 10, 11, outcomeOK)}},
	{name: "a claim of an unreachable host, without a controller", right: false,
		absences: []absence{{"h0", 4 * second, 20 * second}}, calls: []operation{
			made(kindClaim, "a", "write", "h0", singleNodeWriter, 1, 2, outcomeOK),
			made(kindClaim, "b", "write", "h1", singleNodeWriter, 10, 11, outcomeOK)}},
	{name: "a claim of a host that is lost", right: true, lost: []absence{{"h0", 4 * second, -1}}, calls: []operation{
		made(kindClaim, "a", "write", "h0", singleNodeWriter, 1, 2, outcomeOK),
		made(kindClaim, "b", "write", "h1", singleNodeWriter, 10, 11, outcomeOK)}},
	{name: "a claim without an answer, which the witness saw", right: true, lives: []*life{lived("a", "h0", 3, 0)},
		calls: []operation{
			made(kindClaim, "a", "write", "h0", singleNodeWriter, 1, 2, outcomeUnknown),
			made(kindClaim, "b", "write", "h1", singleNodeWriter, 4, 5, outcomeRefused)}},
	{name: "a claim without an answer, which the witness did not see", right: false, lives: []*life{}, calls: []operation{
		made(kindClaim, "a", "write", "h0", singleNodeWriter, 1, 2, outcomeUnknown),
		made(kindClaim, "b", "write", "h1", singleNodeWriter, 4, 5, outcomeRefused)}},
	{name: "a claim that the witness saw end, and nobody released", right: false, lives: []*life{lived("a", "h0", 2, 4)},
		calls: []operation{made(kindClaim, "a", "write", "h0", singleNodeWriter, 1, 2, outcomeOK)}},
	{name: "a claim that came back", right: false, lives: []*life{lived("a", "h0", 2, 4), lived("a", "h0", 9, 0)},
		calls: []operation{
			made(kindClaim, "a", "write", "h0", singleNodeWriter, 1, 2, outcomeOK),
			made(kindRelease, "a", "write", "h0", singleNodeWriter, 3, 4, outcomeOK)}},
	{name: "a claim that its call took, undid, and took again", right: true,
		lives: []*life{lived("a", "h0", 2, 4), lived("a", "h0", 6, 0)},
		calls: []operation{
			made(kindAttach, "a", "write", "h0", singleNodeWriter, 1, 7, outcomeOK),
			seen(8, 9, writes("a", "h0", singleNodeWriter))}},
	{name: "a claim that an earlier call took, given again", right: true, lives: []*life{lived("a", "h0", 2, 0)},
		calls: []operation{
			made(kindClaim, "a", "write", "h0", singleNodeWriter, 1, 2, outcomeOK),
			made(kindClaim, "a", "write", "h0", singleNodeWriter, 8, 9, outcomeOK)}},
	{name: "a claim that the witness saw a second after its answer", right: true, lives: []*life{lived("a", "h0", 3, 0)},
		calls: []operation{made(kindClaim, "a", "write", "h0", singleNodeWriter, 1, 2, outcomeOK)}},
	{name: "a claim that ended before its call was answered", right: true, lives: []*life{lived("a", "h0", 2, 3)},
		calls: []operation{
			made(kindClaim, "a", "write", "h0", singleNodeWriter, 1, 4, outcomeOK),
			made(kindRelease, "a", "write", "h0", singleNodeWriter, 2, 5, outcomeOK)}},
	{name: "a claim that was acknowledged and never made", right: false, lives: []*life{}, calls: []operation{
		made(kindClaim, "a", "write", "h0", singleNodeWriter, 1, 2, outcomeOK),
		made(kindRelease, "a", "write", "h0", singleNodeWriter, 3, 4, outcomeOK)}},
	{name: "an attachment whose claim was never made", right: false, lives: []*life{}, calls: []operation{
		made(kindAttach, "a", "write", "h0", singleNodeWriter, 1, 2, outcomeOK),
		made(kindDetach, "a", "write", "h0", singleNodeWriter, 3, 4, outcomeOK)}},
	{name: "a claim that was acknowledged and made on another node", right: false, lives: []*life{lived("a", "h1", 2, 0)},
		calls: []operation{made(kindClaim, "a", "write", "h0", singleNodeWriter, 1, 2, outcomeOK)}},
	{name: "a claim that was acknowledged and made with another access mode", right: false, lives: []*life{lived("a", "h0", 2, 0)},
		calls: []operation{made(kindClaim, "a", "write", "h0", singleNodeMultiWriter, 1, 2, outcomeOK)}},
	{name: "a claim that was acknowledged again after it had ended", right: false, lives: []*life{lived("a", "h0", 2, 4)},
		calls: []operation{
			made(kindClaim, "a", "write", "h0", singleNodeWriter, 1, 2, outcomeOK),
			made(kindRelease, "a", "write", "h0", singleNodeWriter, 3, 4, outcomeOK),
			made(kindClaim, "a", "write", "h0", singleNodeWriter, 8, 9, outcomeOK),
			made(kindRelease, "a", "write", "h0", singleNodeWriter, 10, 11, outcomeOK)}},
	{name: "a claim that was made only after it was acknowledged", right: false, lives: []*life{lived("a", "h0", 9, 0)},
		calls: []operation{
			made(kindClaim, "a", "write", "h0", singleNodeWriter, 1, 2, outcomeOK),
			made(kindClaim, "a", "write", "h0", singleNodeWriter, 7, 10, outcomeOK)}},
	{name: "a bare path of a claim that was given up", right: true, lives: []*life{givenUp("a", "h0", 2, 5)},
		bares: bareAt("a", "h0", 8), calls: []operation{made(kindAttach, "a", "write", "h0", singleNodeWriter, 1, 3, outcomeOK)}},
	{name: "a bare path long before its claim was given up", right: false, lives: []*life{givenUp("a", "h0", 2, 9)},
		bares: bareAt("a", "h0", 6), calls: []operation{made(kindAttach, "a", "write", "h0", singleNodeWriter, 1, 3, outcomeOK)}},
	{name: "a bare path of a claim that stands", right: false, lives: []*life{lived("a", "h0", 2, 0)},
		bares: bareAt("a", "h0", 8), calls: []operation{made(kindAttach, "a", "write", "h0", singleNodeWriter, 1, 3, outcomeOK)}},
	{name: "a bare path of a claim that was given up and taken again", right: false,
		lives: []*life{givenUp("a", "h0", 2, 5), lived("a", "h0", 6, 0)}, bares: bareAt("a", "h0", 8),
		calls: []operation{made(kindAttach, "a", "write", "h0", singleNodeWriter, 1, 7, outcomeOK)}},
	{name: "a bare path, and the claim of another allocation was given up", right: false,
		lives: []*life{lived("a", "h0", 2, 0), givenUp("b", "h0", 2, 5)}, bares: bareAt("a", "h0", 8),
		calls: []operation{
			made(kindAttach, "a", "write", "h0", singleNodeWriter, 1, 3, outcomeOK),
			made(kindClaim, "b", "write", "h0", singleNodeWriter, 1, 2, outcomeUnknown)}},
	{name: "a claim of another host than the lost one", right: false, lost: []absence{{"h2", 4 * second, -1}},
		calls: []operation{
			made(kindClaim, "a", "write", "h0", singleNodeWriter, 1, 2, outcomeOK),
			made(kindClaim, "b", "write", "h1", singleNodeWriter, 10, 11, outcomeOK)}},
}
