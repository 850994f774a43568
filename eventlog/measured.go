package eventlog

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/norn-scheduler/norn/internal/jsontext"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/state"
)

// Lessons is the events that take over into a new log what was measured of jobs and what
// was learnt of those that share devices. carried are the events of Carried, behind which
// they belong. Measurements of jobs that are not carried are left behind.
func Lessons(s *state.State, carried []Event) []Event {
	out := measurements(s, carried)
	first := len(out)
	for pair, factor := range s.Learnt() {
		out = append(out, Event{Time: s.Now, Kind: Learnt, Job: job.None, Pair: pair, Speed: factor})
	}
	slices.SortFunc(out[first:], func(a, b Event) int {
		return cmp.Or(cmp.Compare(a.Pair.Job, b.Pair.Job), cmp.Compare(a.Pair.Beside, b.Pair.Beside), cmp.Compare(a.Pair.Type, b.Pair.Type))
	})
	return out
}

// measurements are those of the jobs that are carried, with their new numbers.
func measurements(s *state.State, carried []Event) (out []Event) {
	if len(s.Readings.All()) == 0 {
		return nil
	}
	now := map[int64]job.ID{}
	for i := range carried {
		if ev := &carried[i]; ev.Kind == Carry || ev.Kind == Past {
			now[ev.Spec.Serial] = ev.Job
		}
	}
	for _, m := range s.Readings.All() {
		if id, ok := now[s.Record(m.Job).Serial()]; ok {
			out = append(out, Event{Time: s.Now, Kind: Measured, Job: id, Measured: m.Reading})
		}
	}
	return out
}

func (ev *Event) appendMeasured(f *jsontext.Writer) {
	m := ev.Measured
	if err := m.Check(); err != nil {
		f.Err = err
	}
	f.Key("measured")
	f.B = append(f.B, '{')
	f.Text("at", m.When.String())
	s := &m.Setup
	f.Int("tasks", int64(s.Tasks))
	f.Text("type", s.Type)
	f.Bool("spread", s.Spread)
	f.Milli("cpu", s.CPU)
	f.Int("mem", int64(s.Memory))
	f.Int("batch", int64(s.Batch))
	list(f, "seats", len(s.Seats), func(i int) { f.B = jsontext.AppendText(f.B, s.Seats[i].String()) })
	if s.How != job.Apart {
		f.Text("how", s.How.String())
		f.Text("with", s.With)
	}
	list(f, "beside", len(s.Beside), func(i int) { f.B = jsontext.AppendText(f.B, s.Beside[i]) })
	f.Key("values")
	f.B = append(f.B, '{')
	for _, v := range m.Values {
		f.Key(v.Name)
		f.B = append(f.B, '[')
		for i, x := range v.Series {
			if i > 0 {
				f.B = append(f.B, ',')
			}
			f.B = jsontext.AppendNumber(f.B, x)
		}
		f.B = append(f.B, ']')
	}
	f.B = append(f.B, '}', '}')
}

// measured reads what was measured.
func (l *Reader) measured(ev *Event) error {
	m := new(perf.Reading)
	t, s := &l.text, &m.Setup
	ev.Measured = m
	err := t.Object(func(key []byte) (err error) {
		switch string(key) {
		case "at":
			return named(t, &m.When, perf.InProfile, perf.InRun, perf.AtEnd)
		case "tasks":
			return count(t, &s.Tasks)
		case "type":
			return text(t, &s.Type)
		case "spread":
			s.Spread, err = t.Bool()
			return err
		case "cpu":
			return milli(t, &s.CPU)
		case "mem":
			return size(t, &s.Memory)
		case "batch":
			return count(t, &s.Batch)
		case "seats":
			return t.Array(func() error {
				var word string
				if err := text(t, &word); err != nil {
					return err
				}
				seat, err := perf.ParseSeat(word)
				if err == nil && len(s.Seats) == perf.MostSeats {
					err = fmt.Errorf("more than %d devices", perf.MostSeats)
				}
				s.Seats = append(s.Seats, seat)
				return err
			})
		case "how":
			return named(t, &s.How, job.Together, job.After)
		case "with":
			return text(t, &s.With)
		case "beside":
			return t.Array(func() error {
				if len(s.Beside) == maxBeside {
					return fmt.Errorf("more than %d jobs beside it", maxBeside)
				}
				s.Beside = append(s.Beside, "")
				return text(t, &s.Beside[len(s.Beside)-1])
			})
		case "values":
			return l.values(m)
		}
		return t.Skip() // of a later program
	})
	return cmp.Or(err, m.Check())
}

// maxBeside bounds the jobs that are told of beside one that was measured.
const maxBeside = 64

// count reads a number of things.
func count(t *jsontext.Reader, to *int) error {
	n, err := t.Int(0, 1<<40)
	*to = int(n)
	return err
}

// values reads series by their names.
func (l *Reader) values(m *perf.Reading) error {
	t := &l.text
	return t.Object(func(key []byte) error {
		name := string(key)
		var series []float64
		err := t.Array(func() error {
			x, err := t.Float()
			if len(series) == perf.MaxSeries {
				return fmt.Errorf("more than %d numbers of %q", perf.MaxSeries, name)
			}
			series = append(series, x)
			return err
		})
		if len(m.Values) == perf.MaxValues {
			return fmt.Errorf("more than %d values", perf.MaxValues)
		}
		m.Add(name, series...)
		return err
	})
}
