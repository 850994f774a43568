package lucid

import (
	"errors"
	"fmt"
	"math/bits"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/internal/published/harness"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/trace"
)

// The published code counts from the first job on or after this day, and
// simulates what is submitted in this window, counted from the day itself. The
// two only agree when a job is submitted at the very beginning of the day.
var (
	origin      = date(2020, 4, 1)
	windowBegin = date(2020, 9, 1) - origin
	windowEnd   = date(2020, 9, 26) + 23*3600 + 59*60 - origin
)

func date(year int, month time.Month, day int) int64 {
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix()
}

// readJobs reads a job log: CSV with the columns job_id, vc, gpu_num,
// submit_time (a date and time, UTC) and duration in seconds. Jobs without GPUs
// and jobs of other virtual clusters are left out.
func readJobs(path string, vcs []vc) (harness.Jobs, error) {
	t, err := harness.OpenTable(path)
	if err != nil {
		return nil, err
	}
	return readLog(t, vcs)
}

func readLog(t *harness.Table, vcs []vc) (harness.Jobs, error) {
	at, err := t.Need("job_id", "vc", "gpu_num", "submit_time", "duration")
	if err != nil {
		return nil, err
	}
	known := map[string]string{}
	for _, v := range vcs {
		known[v.name] = v.name
	}
	jobs, times := make(harness.Jobs, 0, t.Rows()), make([]int64, 0, t.Rows())
	var shapes job.Interner
	for {
		more, err := t.Next()
		if err != nil {
			return nil, err
		}
		if !more {
			return cut(jobs, times), nil
		}
		gpus, err := t.Int(at[2])
		if err != nil {
			return nil, err
		}
		name, ok := known[t.Field(at[1])]
		if gpus == 0 || !ok {
			continue
		}
		e, submit, err := readJob(t, at, name, int(gpus), &shapes)
		if err != nil {
			return nil, err
		}
		jobs, times = append(jobs, e), append(times, submit)
	}
}

// maxGPUs bounds the size of a job.
const maxGPUs = 100_000

func readJob(t *harness.Table, at []int, vcName string, gpus int, shapes *job.Interner) (e trace.Entry, submit int64, err error) {
	duration, err := t.Int(at[4])
	if err != nil {
		return e, 0, err
	}
	submit, ok := parseTime(t.Field(at[3]))
	switch {
	case !ok:
		return e, 0, t.Bad(at[3], "a date and time like 2020-09-01 00:00:45")
	case gpus > maxGPUs || duration > harness.MaxSeconds:
		return e, 0, t.Errorf("job %s: %d GPUs for %d seconds is out of range", t.Field(at[0]), gpus, duration)
	}
	e.Job = job.Job{Key: t.Field(at[0]), Tenant: vcName, Demand: shapes.Get(job.GPUs(gpus))}
	e.Truth.Work = harness.Seconds(duration)
	return e, submit, nil
}

// parseTime reads "2020-09-01 00:00:45" as seconds since 1970, UTC.
func parseTime(s string) (int64, bool) {
	s, _, _ = strings.Cut(s, "+00:00")
	if len(s) < 19 || s[4] != '-' || s[7] != '-' || s[10] != ' ' && s[10] != 'T' || s[13] != ':' || s[16] != ':' {
		return 0, false
	}
	var v [6]int64
	for i, at := range [...][2]int{{0, 4}, {5, 7}, {8, 10}, {11, 13}, {14, 16}, {17, 19}} {
		n, ok := harness.Digits(s[at[0]:at[1]])
		if !ok {
			return 0, false
		}
		v[i] = n
	}
	if v[1] < 1 || v[1] > 12 || v[2] < 1 || v[2] > 31 || v[3] > 23 || v[4] > 59 || v[5] > 59 || v[0] < 1970 {
		return 0, false
	}
	return date(int(v[0]), time.Month(v[1]), int(v[2])) + v[3]*3600 + v[4]*60 + v[5], true
}

// cut sorts the jobs by submission, counts from the first one on or after the
// origin and keeps those in the window. The published code sorts twice, the
// second time what is kept.
func cut(jobs harness.Jobs, times []int64) harness.Jobs {
	kept, seconds := make(harness.Jobs, 0, len(jobs)), make([]int64, 0, len(jobs))
	first := int64(-1)
	for _, i := range numpyOrder(times) {
		if times[i] < origin {
			continue
		}
		if first < 0 {
			first = times[i]
		}
		if at := times[i] - first; at >= windowBegin && at <= windowEnd {
			kept, seconds = append(kept, jobs[i]), append(seconds, at)
		}
	}
	out := make(harness.Jobs, 0, len(kept))
	for _, i := range numpyOrder(seconds) {
		e := kept[i]
		e.Job.Submit = harness.Seconds(seconds[i])
		out = append(out, e)
	}
	out.Sort()
	return out
}

// few is the number of steps up to which a part is sorted by insertion.
const few = 15

// numpyOrder sorts numbers, least first, and returns their places. Equal
// numbers come out as they do from NumPy's argsort, which pandas sorts rows
// with: it is an introsort (median of three, the larger part put aside), and
// not stable. Jobs submitted in the same second go first come, first served in
// that order.
func numpyOrder(v []int64) []int32 {
	order := make([]int32, len(v))
	for i := range order {
		order[i] = int32(i)
	}
	if len(v) > 1 {
		introsort{v, order}.sort()
	}
	return order
}

type introsort struct {
	v     []int64
	order []int32
}

func (s introsort) less(a, b int) bool { return s.v[s.order[a]] < s.v[s.order[b]] }

func (s introsort) swap(a, b int) { s.order[a], s.order[b] = s.order[b], s.order[a] }

// part is a part to be sorted, and how often it may still be cut.
type part struct{ lo, hi, cuts int }

func (s introsort) sort() {
	aside := []part{{0, len(s.v) - 1, 2 * (bits.Len(uint(len(s.v))) - 1)}}
	for len(aside) > 0 {
		p := aside[len(aside)-1]
		aside = aside[:len(aside)-1]
		if p.cuts < 0 {
			s.heapsort(p.lo, p.hi)
			continue
		}
		for p.hi-p.lo > few {
			at := s.partition(p.lo, p.hi)
			p.cuts--
			if at-p.lo < p.hi-at {
				aside = append(aside, part{at + 1, p.hi, p.cuts})
				p.hi = at - 1
			} else {
				aside = append(aside, part{p.lo, at - 1, p.cuts})
				p.lo = at + 1
			}
		}
		s.insertion(p.lo, p.hi)
	}
}

// partition moves what is smaller than the median of the first, the middle and
// the last before it, and returns its place.
func (s introsort) partition(lo, hi int) int {
	mid := lo + (hi-lo)/2
	if s.less(mid, lo) {
		s.swap(mid, lo)
	}
	if s.less(hi, mid) {
		s.swap(hi, mid)
	}
	if s.less(mid, lo) {
		s.swap(mid, lo)
	}
	pivot := s.v[s.order[mid]]
	s.swap(mid, hi-1)
	i, j := lo, hi-1
	for {
		for i++; s.v[s.order[i]] < pivot; i++ {
		}
		for j--; pivot < s.v[s.order[j]]; j-- {
		}
		if i >= j {
			break
		}
		s.swap(i, j)
	}
	s.swap(i, hi-1)
	return i
}

func (s introsort) insertion(lo, hi int) {
	for i := lo + 1; i <= hi; i++ {
		for k := i; k > lo && s.less(k, k-1); k-- {
			s.swap(k, k-1)
		}
	}
}

// heapsort sorts parts that partition badly.
func (s introsort) heapsort(lo, hi int) {
	n := hi - lo + 1
	for i := n / 2; i > 0; i-- {
		s.sift(lo, i, n)
	}
	for n > 1 {
		s.swap(lo, lo+n-1)
		n--
		s.sift(lo, 1, n)
	}
}

// sift moves the i-th of n members of the heap that begins at lo down to its
// place; members count from one.
func (s introsort) sift(lo, i, n int) {
	moved := s.order[lo+i-1]
	for child := 2 * i; child <= n; child = 2 * i {
		if child < n && s.less(lo+child-1, lo+child) {
			child++
		}
		if s.v[moved] >= s.v[s.order[lo+child-1]] {
			break
		}
		s.order[lo+i-1] = s.order[lo+child-1]
		i = child
	}
	s.order[lo+i-1] = moved
}

// readPriorities gives the jobs their predicted GPU time.
func readPriorities(path string, jobs harness.Jobs) error {
	if path == "" {
		return errors.New("qssf needs a file of predicted run times (columns job_id and priority)")
	}
	t, err := harness.OpenTable(path)
	if err != nil {
		return err
	}
	return setPriorities(t, jobs)
}

func setPriorities(t *harness.Table, jobs harness.Jobs) error {
	at, err := t.Need("job_id", "priority")
	if err != nil {
		return err
	}
	known := map[string]float64{}
	for {
		more, err := t.Next()
		if err != nil {
			return err
		}
		if !more {
			break
		}
		v, err := t.Float(at[1])
		if err != nil {
			return err
		}
		if _, twice := known[t.Field(at[0])]; !twice { // the first one counts
			known[t.Field(at[0])] = v
		}
	}
	for i := range jobs {
		v, ok := known[jobs[i].Job.Key]
		if !ok {
			return fmt.Errorf("%s: has no prediction for job %s", t.Name, jobs[i].Job.Key)
		}
		jobs[i].Job.Hints = &job.Hints{Rank: v * float64(jobs[i].Job.Demand.GPUs()), HasRank: true}
	}
	return nil
}
