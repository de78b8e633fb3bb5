package main

// An operation without an answer may take effect at any time, and the checker has to try all of them. Reads narrow the
// time: a claim that a read shows was taken before the read ended, and was not freed before the read began. That says
// nothing new to the checker, but it saves it a search without end. It is done only for claims that one call took, and
// that nothing takes again.
func narrow(operations []operation) []operation {
	byClaim := map[string][]*operation{}
	var reads []*operation
	for i := range operations {
		o := &operations[i]
		if o.Kind == kindRead && o.Outcome == outcomeOK {
			reads = append(reads, o)
		} else if o.Allocation != "" {
			key := o.Allocation + "/" + o.Mode
			byClaim[key] = append(byClaim[key], o)
		}
	}
	for _, calls := range byClaim {
		var takes, ends []*operation
		for _, o := range calls {
			switch {
			case o.Outcome == outcomeNone:
			case o.Kind == kindClaim || o.Kind == kindAttach || o.Kind == kindRestore:
				takes = append(takes, o)
			default:
				ends = append(ends, o)
			}
		}
		if len(takes) == 1 && takes[0].Outcome != outcomeRefused {
			narrowClaim(takes[0], ends, reads)
		}
	}
	return operations
}

func narrowClaim(take *operation, ends, reads []*operation) {
	lastSeen, known := int64(-1), int64(-1) // known: from then on it stood, until it ended
	if take.Outcome == outcomeOK {
		known = take.Return
	}
	for _, read := range reads {
		if !read.shows(take) {
			continue
		}
		lastSeen = max(lastSeen, read.Call)
		if known < 0 || read.Return < known {
			known = read.Return
		}
	}
	if take.isOpen() && known >= 0 {
		take.Return, take.Narrowed = known, true
	}
	for _, end := range ends {
		if end.isOpen() {
			end.Call = max(end.Call, lastSeen)
		}
	}
	if known < 0 || len(ends) != 1 || !ends[0].isOpen() {
		return
	}
	for _, read := range reads {
		gone := !read.shows(take) && read.Call > known
		if gone && (!ends[0].Narrowed || read.Return < ends[0].Return) && read.Return >= ends[0].Call {
			ends[0].Return, ends[0].Narrowed = read.Return, true
		}
	}
}

func (o *operation) shows(claim *operation) bool {
	for _, one := range o.Claims {
		if one.Allocation == claim.Allocation && one.Mode == claim.Mode {
			return true
		}
	}
	return false
}
