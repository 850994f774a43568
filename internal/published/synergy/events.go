package synergy

// event is something that happens: jobs arrive, leases end, a round begins.
type event struct {
	at   float64
	kind kind
	task *task
}

type kind uint8

// The kinds, in the order in which they happen at one moment.
const (
	arrives kind = iota
	leaseEnds
	roundBegins
)

func (e *event) before(o *event) bool { return e.at < o.at || e.at == o.at && e.kind < o.kind }

// events is a queue of events. The order of equals depends on how the heap is
// kept, so it is kept as Python's heapq keeps it. An element that is taken out
// is replaced by the last one, which goes down to a leaf along the smaller
// children and up again from there.
type events []event

func (q *events) push(e event) {
	*q = append(*q, e)
	q.rise(0, len(*q)-1)
}

// rise moves the event at a place up, as far as first, past those that it is before.
func (q events) rise(first, at int) {
	e := q[at]
	for at > first {
		parent := (at - 1) / 2
		if !e.before(&q[parent]) {
			break
		}
		q[at] = q[parent]
		at = parent
	}
	q[at] = e
}

func (q *events) pop() event {
	all := *q
	last := all[len(all)-1]
	*q = all[:len(all)-1]
	if len(*q) == 0 {
		return last
	}
	first := all[0]
	all = all[:len(all)-1]
	at := 0
	for child := 1; child < len(all); child = 2*at + 1 {
		if right := child + 1; right < len(all) && !all[child].before(&all[right]) {
			child = right
		}
		all[at] = all[child]
		at = child
	}
	all[at] = last
	all.rise(0, at)
	return first
}
