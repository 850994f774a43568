package fidelity

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/local/rundir"
)

// Costs are what transitions took live, from the event log, the files of the runs
// and the notes of the jobs.
type Costs struct {
	Lag        Span // from the moment at which the trace has a job submitted until it was
	Start      Span // from the decision to the first instruction of the job, first launch
	Restore    Span // the same of a later launch, or until a frozen one went on
	Checkpoint Span // from the decision to stop until the devices were free
	Leave      Span // from the last instruction of a job until its end was known

	Launch Span // of Start and Restore: until the process was there; the rest is its own beginning
}

// Span is a time that was measured again and again.
type Span struct {
	N                              int
	Mean, Least, Median, P95, Most time.Duration
}

func spanOf(all []time.Duration) Span {
	if len(all) == 0 {
		return Span{}
	}
	slices.Sort(all)
	var sum time.Duration
	for _, d := range all {
		sum += d
	}
	at := func(part float64) time.Duration { return all[max(0, int(math.Ceil(part*float64(len(all))))-1)] }
	return Span{len(all), sum / time.Duration(len(all)), all[0], at(0.5), at(0.95), all[len(all)-1]}
}

// gauge collects what is measured.
type gauge struct{ lag, start, restore, checkpoint, leave, launch []time.Duration }

// measure finds out what transitions took live.
func (t *Trial) measure(h *History) (*Costs, error) {
	if len(h.Jobs) != len(t.Jobs) {
		return nil, fmt.Errorf("the log tells of %d jobs, the trace has %d", len(h.Jobs), len(t.Jobs))
	}
	g := &gauge{}
	for i := range h.Jobs {
		l := &h.Jobs[i]
		g.lag = append(g.lag, l.Submit-t.Jobs[i].Job.Submit)
		for _, stop := range l.Leaves {
			if stop.Gone > stop.Decided {
				g.checkpoint = append(g.checkpoint, stop.Gone-stop.Decided)
			}
		}
		measure := t.launches
		if t.Stop == job.Freeze {
			measure = t.thaws
		}
		if err := measure(l, h.Zero, g); err != nil {
			return nil, fmt.Errorf("job %s: %w", l.Key, err)
		}
	}
	return &Costs{
		Lag: spanOf(g.lag), Start: spanOf(g.start), Restore: spanOf(g.restore), Checkpoint: spanOf(g.checkpoint),
		Leave: spanOf(g.leave), Launch: spanOf(g.launch),
	}, nil
}

// run is what the files tell of one run of a job.
func (t *Trial) run(key string, n int) (st rundir.Status, own note, ok bool, err error) {
	if _, err = rundir.Read(filepath.Join(t.state(), "runs", key, strconv.Itoa(n)), rundir.StatusFile, &st); err != nil {
		return st, own, false, err
	}
	text, err := os.ReadFile(filepath.Join(t.notes(), key+"."+strconv.Itoa(n)+".json"))
	if os.IsNotExist(err) { // it was told to stop before it could say anything
		return st, own, false, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &own)
	}
	return st, own, err == nil, err
}

// launches measures a job each run of which is a launch.
func (t *Trial) launches(l *Life, zero time.Time, g *gauge) error {
	for i, begin := range l.Begins {
		st, own, ok, err := t.run(l.Key, i+1)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		g.launched(i == 0, own.First.Sub(zero)-begin, time.Unix(0, st.Began).Sub(zero)-begin)
		if i == len(l.Begins)-1 {
			g.leave = append(g.leave, l.End-(own.Last.Sub(zero)))
		}
	}
	return nil
}

func (g *gauge) launched(first bool, took, launch time.Duration) {
	g.launch = append(g.launch, launch)
	if first {
		g.start = append(g.start, took)
	} else {
		g.restore = append(g.restore, took)
	}
}

// thaws measures a job that is launched once, and stopped in memory after that:
// it has noted when it could not work.
func (t *Trial) thaws(l *Life, zero time.Time, g *gauge) error {
	st, own, ok, err := t.run(l.Key, 1)
	if err != nil || !ok || len(l.Begins) == 0 {
		return err
	}
	g.launched(true, own.First.Sub(zero)-l.Begins[0], time.Unix(0, st.Began).Sub(zero)-l.Begins[0])
	g.leave = append(g.leave, l.End-(own.Last.Sub(zero)))
	for _, begin := range l.Begins[1:] {
		for _, p := range own.Pauses {
			if from, to := p.From.Sub(zero), p.To.Sub(zero); from < begin && begin < to {
				g.restore = append(g.restore, to-begin)
			}
		}
	}
	return nil
}
