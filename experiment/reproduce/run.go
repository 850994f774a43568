package reproduce

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/internal/workers"
)

// Runner carries out studies.
type Runner struct {
	Data  string // the data folder, in which data and golden are
	Quick bool   // the form

	// Simulate carries out the commands of a world as norn does. It tells done of each
	// outcome, one at a time. Worlds are simulated side by side.
	Simulate func(ctx context.Context, w *World, policies []experiment.Choice, done func(*experiment.Outcome) error) error
}

// Run tries the claims of a study, its worlds side by side. Where a file is missing, the rows say so and nothing
// is run. An error names the study.
func (r *Runner) Run(ctx context.Context, s *Study) ([]Row, error) {
	worlds := s.Form(r.Quick)
	rows := s.rows(r.Quick)
	if missing := r.missing(worlds); missing != "" {
		for i := range rows {
			rows[i].NoData = missing
		}
		return rows, nil
	}
	began := time.Now()
	tables := make([]table, len(worlds))
	side, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	workers.Pool(0).Each(len(worlds), func(i int) {
		if side.Err() != nil {
			return
		}
		var err error
		if tables[i], err = r.world(side, s, &worlds[i]); err != nil {
			stop(fmt.Errorf("%s/%s: %w", s.System, s.Name, err)) // the first one counts
		}
	})
	if err := context.Cause(side); err != nil {
		return nil, err
	}
	for i := range rows {
		rows[i].judge(&s.Claims[i], s.Of(&s.Claims[i]), tables)
		rows[i].Seconds = math.Round(time.Since(began).Seconds()*10) / 10
	}
	return rows, nil
}

// missing is the first file of the worlds that is not there.
func (r *Runner) missing(worlds []World) string {
	for i := range worlds {
		for _, f := range worlds[i].Files() {
			if _, err := os.Stat(filepath.Join(r.Data, filepath.FromSlash(f))); errors.Is(err, fs.ErrNotExist) {
				return f
			}
		}
	}
	return ""
}

// table is the figures of a world: by policy, then by the key of the metric.
type table map[string]map[string]float64

// world runs all policies of a study in one world.
func (r *Runner) world(ctx context.Context, s *Study, w *World) (table, error) {
	choices, err := experiment.ParseChoices(join(s.Compared()))
	if err != nil {
		return nil, err
	}
	out := table{}
	done := func(o *experiment.Outcome) error {
		figures := map[string]float64{}
		for i := range s.Claims {
			m := s.Claims[i].Metric
			if _, known := figures[m.Key]; !known {
				figures[m.Key] = m.Of(o)
			}
		}
		out[o.Choice.String()] = figures
		o.State, o.Sim = nil, nil // the figures are enough from here on
		return nil
	}
	if w.Make == nil {
		return out, r.Simulate(ctx, w, choices, done)
	}
	for _, c := range choices {
		x, src, err := w.Make(r.Data, c)
		if err != nil {
			return nil, err
		}
		o, err := x.Run(ctx, c, src)
		if err != nil {
			return nil, err
		}
		if err := done(o); err != nil {
			return nil, err
		}
	}
	return out, nil
}
