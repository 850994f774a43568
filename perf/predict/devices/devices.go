// Package devices learns how far devices of a type differ from how fast similar jobs go on them.
//
// Nouns:
//   - A sight is jobs of one sort, seen on one set of devices: the average of the logarithms of their rates.
//   - A peer group is jobs that should be equally fast: one sort, batch, number of tasks and of cores,
//     on devices of one type. Jobs of one sort that tell no batch count as of one.
//   - The score of a device is by how much longer a job takes there than on a typical device of its type
//     (perf.Variability), for each class of sensitivity.
//
// A gang goes at the pace of its slowest device, so a sight says that all of its devices are at least
// so fast, and that one of them is no faster. Scores are the least squares of that: each sight counts
// for the device that is believed to be the slowest of it, and that is chosen anew until nothing changes.
//
// Devices change: of the readings of a sight the latest ones count most, and a sight that was not had again
// for long is forgotten.
//
// The scores are those of PAL (SC 2024), which has them measured beforehand. The fit is ours.
package devices

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
)

// Doubt is a device on which jobs take longer than on others of its type.
type Doubt struct {
	Seat  perf.Seat
	Class string  // of the jobs that mind it most
	Score float64 // as in perf.Variability
	Jobs  int     // of which it was seen
}

// Doubtful is the score from which on a device is doubtful, if so many jobs say so.
const (
	Doubtful  = 1.05
	LeastJobs = 3
)

// peers is a peer group.
type peers struct {
	kind
	sort         string
	tasks, batch int
	cpu          unit.Milli
	spread       bool
}

// sight is what was seen of a peer group on a set of devices.
type sight struct {
	key     string
	group   int
	seats   []int   // of which each is listed once
	rate    float64 // average of logarithms
	n       int     // readings
	last    int     // how many readings of all there were at the last one
	jobs    map[int64]bool
	culprit int // the seat that is believed to be the slowest
}

// latest is the weight of the latest reading of a sight in its average, once there are enough of them.
const latest = 0.1

// add takes in a reading.
func (s *sight) add(rate float64, j *job.Job, at int) {
	s.n++
	s.rate += (rate - s.rate) * max(latest, 1/float64(s.n))
	s.last, s.jobs[perf.SerialOf(j)] = at, true
}

// A sight is forgotten after so many readings of others, more where there are many devices.
const (
	leastKept = 1000
	keptEach  = 32 // for each device
)

// kind is the devices of one type, for one class of jobs.
type kind struct{ class, gpu string }

// place is one of them.
type place struct {
	kind
	seat perf.Seat
}

// Learner is a perf.Believer that learns the scores of devices.
type Learner struct {
	groups map[peers]int
	places map[place]int
	all    []place
	sights []sight
	at     map[string]int // the sight of a group on a set
	seen   int            // readings
	next   int            // so many must have been seen before policies are told anew
	stale  bool           // something was seen since the last fit
	scores []float64      // logarithms, by place
	losses []float64      // by which the jobs that were seen on it were slower than others, by place
	blamed []int          // jobs whose slowest device a place is, by place
	told   *perf.Variability
}

// New returns a learner to which all devices are typical.
func New() *Learner {
	return &Learner{groups: map[peers]int{}, places: map[place]int{}, at: map[string]int{}, next: 1}
}

// Observe implements perf.Believer. Jobs beside others, and those that are merged, tell nothing.
func (l *Learner) Observe(j *job.Job, m *perf.Reading) {
	s := &m.Setup
	rate, ok := m.Figure(perf.Rate)
	if !ok {
		rate, ok = m.Figure(perf.Relative)
	}
	if !ok || !(rate > 0) || len(s.Seats) == 0 || len(s.Beside) > 0 || s.How != job.Apart {
		return
	}
	group := peers{kind{perf.SensitivityOf(j), s.Type}, perf.SortOf(j), s.Tasks, cmp.Or(s.Batch, j.Batch), s.CPU, s.Spread}
	l.stale = true
	l.seen++
	l.sightOf(group, s.Seats).add(math.Log(rate), j, l.seen)
	if l.seen >= l.next {
		l.next = l.seen + 1 + l.seen/10
		l.fit()
		l.tell()
	}
}

// sightOf is the sight of a group on a set of devices, which it makes where there is none.
func (l *Learner) sightOf(g peers, seats []perf.Seat) *sight {
	group, known := l.groups[g]
	if !known {
		group = len(l.groups)
		l.groups[g] = group
	}
	on := make([]int, len(seats))
	for i, seat := range seats {
		p := place{g.kind, seat}
		n, known := l.places[p]
		if !known {
			n = len(l.all)
			l.places[p], l.all = n, append(l.all, p)
			l.scores, l.losses, l.blamed = append(l.scores, 0), append(l.losses, 0), append(l.blamed, 0)
		}
		on[i] = n
	}
	slices.Sort(on)
	on = slices.Compact(on)
	key := make([]byte, 0, 4+4*len(on))
	for _, n := range append([]int{group}, on...) {
		key = append(key, byte(n), byte(n>>8), byte(n>>16), byte(n>>24))
	}
	n, known := l.at[string(key)]
	if !known {
		n = len(l.sights)
		l.at[string(key)] = n
		l.sights = append(l.sights, sight{key: string(key), group: group, seats: on, jobs: map[int64]bool{}})
	}
	return &l.sights[n]
}

// mostRounds bounds the rounds of a fit.
const mostRounds = 50

// fit finds the scores anew: a function of the sights alone.
func (l *Learner) fit() {
	if !l.stale {
		return
	}
	l.stale = false
	l.forget()
	base := l.medians()
	l.bound(base)
	for range mostRounds {
		if !l.accuse() {
			break
		}
		l.solve(base)
	}
	l.typical()
	clear(l.blamed)
	for i := range l.sights {
		l.blamed[l.sights[i].culprit] += len(l.sights[i].jobs)
	}
}

// forget drops sights that were not had for long.
func (l *Learner) forget() {
	kept := max(leastKept, keptEach*len(l.all))
	if l.seen <= kept {
		return
	}
	l.sights = slices.DeleteFunc(l.sights, func(s sight) bool { return l.seen-s.last > kept })
	clear(l.at)
	for n := range l.sights {
		l.at[l.sights[n].key] = n
	}
}

// medians are the rates of groups to begin with.
func (l *Learner) medians() []float64 {
	rates := make([][]float64, len(l.groups))
	for i := range l.sights {
		s := &l.sights[i]
		rates[s.group] = append(rates[s.group], s.rate)
	}
	base := make([]float64, len(rates))
	for g, all := range rates {
		base[g] = median(all)
	}
	return base
}

// bound sets scores to the largest ones that are possible: no device is slower than the fastest gang
// of which it was a part.
func (l *Learner) bound(base []float64) {
	for p := range l.scores {
		l.scores[p], l.losses[p] = math.Inf(1), 0
	}
	for i := range l.sights {
		s := &l.sights[i]
		s.culprit = -1
		for _, p := range s.seats {
			slower := base[s.group] - s.rate
			l.scores[p] = min(l.scores[p], slower)
			l.losses[p] += max(0, slower)
		}
	}
}

// alike is how much the scores of devices may differ that were not told apart.
const alike = 0.03

// accuse has each sight count for the slowest of its devices, and tells whether that has changed. Of those
// that were not told apart it is the one whose gangs have lost most.
func (l *Learner) accuse() (changed bool) {
	for i := range l.sights {
		s := &l.sights[i]
		most := math.Inf(-1)
		for _, p := range s.seats {
			most = max(most, l.scores[p])
		}
		slowest := -1
		for _, p := range s.seats {
			if l.scores[p] >= most-alike && (slowest < 0 || l.losses[p] > l.losses[slowest]) {
				slowest = p
			}
		}
		changed = changed || slowest != s.culprit
		s.culprit = slowest
	}
	return changed
}

// That a device is typical counts for as much as this many jobs that are seen there.
const prior = 0.1

// solve finds the scores, and the rates of groups on typical devices, for which sights are as those
// whom they count for say: by turns, since one is a mean given the other.
func (l *Learner) solve(base []float64) {
	for range 20 {
		sum, n := make([]float64, len(l.scores)), make([]float64, len(l.scores))
		for i := range l.sights {
			s := &l.sights[i]
			w := float64(len(s.jobs))
			sum[s.culprit] += w * (base[s.group] - s.rate)
			n[s.culprit] += w
		}
		for p := range l.scores {
			if n[p] > 0 {
				l.scores[p] = sum[p] / (n[p] + prior)
			} else {
				l.scores[p] = min(l.scores[p], 0) // never the slowest: nothing speaks against it
			}
		}
		clear(base)
		of := make([]float64, len(base))
		for i := range l.sights {
			s := &l.sights[i]
			w := float64(len(s.jobs))
			base[s.group] += w * (s.rate + l.scores[s.culprit])
			of[s.group] += w
		}
		for g := range base {
			base[g] /= max(1, of[g])
		}
	}
}

// typical makes 0 the median of the scores of each class and type.
func (l *Learner) typical() {
	all := map[kind][]float64{}
	for n, p := range l.all {
		all[p.kind] = append(all[p.kind], l.scores[n])
	}
	middle := map[kind]float64{}
	for k, scores := range all {
		middle[k] = median(scores)
	}
	for n, p := range l.all {
		l.scores[n] -= middle[p.kind]
	}
}

// median of some numbers, which it puts into order.
func median(x []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	slices.Sort(x)
	if n := len(x); n%2 == 0 {
		return (x[n/2-1] + x[n/2]) / 2
	}
	return x[len(x)/2]
}

// curious is by how much a device counts as slower, in the end, than one of which nothing was seen, so that all are
// tried. Otherwise jobs stay away from who was suspected wrongly, and with a slow one that they cannot tell from others.
const curious = 0.03

// noticeable is by how much a score must change for policies to be told.
const noticeable = 0.01

// tell makes the scores known, if one has changed noticeably.
func (l *Learner) tell() {
	had := make([]float64, len(l.all))
	for i := range l.sights {
		for _, p := range l.sights[i].seats {
			had[p] += float64(len(l.sights[i].jobs))
		}
	}
	now := &perf.Variability{Scores: map[perf.Seat][]float64{}}
	classes := map[string]bool{}
	for _, p := range l.all {
		classes[p.class] = true
	}
	now.Classes = slices.Sorted(maps.Keys(classes))
	for n, p := range l.all {
		if now.Scores[p.seat] == nil {
			now.Scores[p.seat] = slices.Repeat([]float64{1}, len(now.Classes))
		}
		at, _ := slices.BinarySearch(now.Classes, p.class)
		now.Scores[p.seat][at] = math.Exp(l.scores[n]) * (1 + curious*had[n]/(1+had[n]))
	}
	if l.told == nil || differ(l.told, now) {
		l.told = now
	}
}

func differ(a, b *perf.Variability) bool {
	if !slices.Equal(a.Classes, b.Classes) || len(a.Scores) != len(b.Scores) {
		return true
	}
	for seat, of := range b.Scores {
		was := a.Scores[seat]
		for c := range of {
			if was == nil || math.Abs(of[c]-was[c]) > noticeable {
				return true
			}
		}
	}
	return false
}

// Variability is what is believed of devices; nil while nothing was seen.
func (l *Learner) Variability() *perf.Variability { return l.told }

// Doubts are the doubtful devices, by node and place, each with the class of jobs that minds it most.
// A device is one only where jobs were seen on three devices of its type at least.
func (l *Learner) Doubts() []Doubt {
	l.fit()
	seen := map[kind]int{}
	for _, p := range l.all {
		seen[p.kind]++
	}
	worst := map[perf.Seat]Doubt{}
	for n, p := range l.all {
		score := math.Exp(l.scores[n])
		if score < Doubtful || l.blamed[n] < LeastJobs || seen[p.kind] < 3 || score <= worst[p.seat].Score {
			continue
		}
		worst[p.seat] = Doubt{p.seat, p.class, score, l.blamed[n]}
	}
	return slices.SortedFunc(maps.Values(worst), func(a, b Doubt) int {
		return cmp.Or(strings.Compare(a.Seat.Node, b.Seat.Node), cmp.Compare(a.Seat.Index, b.Seat.Index))
	})
}

// Grounds implements perf.Telling: the devices on which jobs of the class of j are slower.
func (l *Learner) Grounds(j *job.Job) (out []string) {
	l.fit()
	class := perf.SensitivityOf(j)
	for n, p := range l.all {
		if score := math.Exp(l.scores[n]); p.class == class && score >= Doubtful && l.blamed[n] > 0 {
			out = append(out, fmt.Sprintf("%s %s takes %.2f times as long as a usual one, as was seen of %s", p.gpu, p.seat, score, unit.Count(l.blamed[n], "job")))
		}
	}
	return out
}

// GainGrounds implements perf.Telling.
func (l *Learner) GainGrounds(_, _ *job.Job) string { return "" }
