package plot

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/norn-scheduler/norn/report/plot/draw"
)

// measured are the measures of an input: those of sweeps, and the runs of folders as those of one
// trace, cluster and seed.
func (in *Input) measured() []Measure {
	out := slices.Clone(in.Measures)
	for i := range in.Runs {
		r := &in.Runs[i]
		s := jct.stats(r, func(*Job) bool { return true })
		if s.N == 0 {
			continue
		}
		waits, first, last := 0.0, math.Inf(1), 0.0
		for k := range r.Jobs {
			first = min(first, r.Jobs[k].Submit)
			if j := &r.Jobs[k]; j.ended() {
				waits += j.Wait
				last = max(last, j.End)
			}
		}
		for _, m := range []struct {
			metric string
			value  float64
		}{
			{"jct_mean_s", s.Mean.Seconds()}, {"jct_median_s", s.Median.Seconds()}, {"jct_p99_s", s.P99.Seconds()}, {"wait_mean_s", waits / float64(s.N)}, {"makespan_s", last - first},
			{"rho_mean", meanOf(rho.values(r))},
		} {
			if !math.IsNaN(m.value) {
				out = append(out, Measure{Policy: r.Name, Metric: m.metric, Value: m.value})
			}
		}
	}
	return out
}

func meanOf(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// baseline is the policy to which others are compared.
func baseline(all []Measure, wanted string) (string, error) {
	names := distinct(all, func(m *Measure) string { return m.Policy })
	switch {
	case wanted == "" && slices.Contains(names, "fifo"):
		return "fifo", nil
	case wanted == "":
		return names[0], nil
	case !slices.Contains(names, wanted):
		return "", noData("no run is called %s: there are %s", wanted, strings.Join(names, ", "))
	}
	return wanted, nil
}

// relative are the values of a metric of a policy in a setting, each divided by that of the
// baseline with the same seed.
func relative(all []Measure, s setting, metric, policy, base string) []float64 {
	under := map[string]float64{}
	for i := range all {
		if m := &all[i]; m.setting() == s && m.Metric == metric && m.Policy == base {
			under[m.Seed] = m.Value
		}
	}
	var out []float64
	for i := range all {
		m := &all[i]
		if m.setting() != s || m.Metric != metric || m.Policy != policy {
			continue
		}
		if b, ok := under[m.Seed]; ok && b != 0 {
			out = append(out, m.Value/b)
		}
	}
	return out
}

// settings are those of measures, in order of appearance, and their names: what differs
// between them.
func settings(all []Measure) ([]setting, []string) {
	var out []setting
	for i := range all {
		if s := all[i].setting(); !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	differ := func(of func(setting) string) bool {
		return slices.ContainsFunc(out, func(s setting) bool { return of(s) != of(out[0]) })
	}
	traces, clusters, loads := differ(func(s setting) string { return s.trace }), differ(func(s setting) string { return s.cluster }), differ(func(s setting) string { return s.load })
	varied := differ(func(s setting) string { return s.varied })
	var names []string
	for _, s := range out {
		var words []string
		if traces {
			words = append(words, s.trace)
		}
		if clusters {
			words = append(words, s.cluster)
		}
		if loads {
			words = append(words, "load "+s.load)
		}
		if varied {
			words = append(words, s.varied)
		}
		names = append(names, strings.Join(words, ", "))
	}
	return out, names
}

// bars is the figure of metrics relative to a baseline.
func bars(in *Input, o Options) (*Picture, error) {
	all := in.measured()
	if len(all) == 0 {
		return nil, noData("no job has ended, and there is no table of a sweep")
	}
	base, err := baseline(all, o.Baseline)
	if err != nil {
		return nil, err
	}
	chosen := metrics(all, o)
	if len(chosen) == 0 {
		return nil, noData("no metric is called %s: there are %s", strings.Join(o.Metrics, ", "), strings.Join(distinct(all, func(m *Measure) string { return m.Metric }), ", "))
	}
	policies := distinct(all, func(m *Measure) string { return m.Policy })
	where, names := settings(all)
	p := &Picture{Data: Table{Header: []string{"trace", "cluster", "load", "varied", "metric", "policy", "baseline", "seeds", "ratio", "low", "high"}}}
	title := "Relative to " + base
	one := draw.Panel{Y: draw.Axis{Title: title, Zero: true}, Rules: []float64{1}}
	for _, metric := range chosen {
		panel := draw.Panel{Title: label(metric), Y: draw.Axis{Title: title, Zero: true}, X: draw.Axis{Names: names}, Rules: []float64{1}}
		for c, s := range where {
			for i, policy := range policies {
				e := estimate(relative(all, s, metric, policy, base))
				p.Data.add(s.trace, s.cluster, s.load, s.varied, metric, policy, base, e.N, e.Mean, e.Low, e.High)
				b := slot(c, i, len(policies))
				b.From, b.To, b.Low, b.High = 0, e.Mean, math.Max(e.Low, 0), e.High // nothing that is divided is below 0
				if len(where) == 1 {
					b.At += float64(len(one.X.Names))
					one.Bars = append(one.Bars, b)
				}
				panel.Bars = append(panel.Bars, b)
			}
		}
		one.X.Names = append(one.X.Names, label(metric))
		p.Chart.Panels = append(p.Chart.Panels, panel)
	}
	if len(where) == 1 {
		p.Chart.Panels = []draw.Panel{one}
	}
	for i, policy := range policies {
		p.Chart.Keys = append(p.Chart.Keys, draw.Key{Name: policy, Look: i, Area: true})
	}
	return p, nil
}

// load is the figure of metrics by load, over the settings that differ otherwise.
func load(in *Input, o Options) (*Picture, error) {
	loads := distinct(in.Measures, func(m *Measure) string { return m.Load })
	values, err := numbersOf(loads)
	if len(loads) < 2 || err != nil {
		return nil, noData("no sweep has runs at several loads")
	}
	chosen := metrics(in.Measures, o)
	policies := distinct(in.Measures, func(m *Measure) string { return m.Policy })
	p := &Picture{Data: Table{Header: []string{"trace", "cluster", "varied", "metric", "policy", "load", "seeds", "mean", "low", "high"}}}
	where, _ := settings(in.Measures)
	several := slices.ContainsFunc(where, func(s setting) bool { return s != setting{where[0].trace, where[0].cluster, s.load, where[0].varied} })
	room := 0.05 * (values[len(values)-1] - values[0]) // beside the first and the last load
	seen := map[setting]bool{}
	for i := range in.Measures {
		s := in.Measures[i].setting()
		s.load = ""
		if seen[s] {
			continue
		}
		seen[s] = true
		for _, metric := range chosen {
			panel := draw.Panel{X: draw.Axis{Title: "Load", From: values[0] - room, To: values[len(values)-1] + room}}
			if several {
				panel.Title = strings.Join(slices.DeleteFunc([]string{s.trace, s.cluster, s.varied}, func(text string) bool { return text == "" }), ", ")
			}
			largest := 0.0
			for k, policy := range policies {
				line := draw.Line{Look: k, Points: true}
				for l, at := range loads {
					e := estimate(valuesOf(in.Measures, setting{s.trace, s.cluster, at, s.varied}, metric, policy))
					p.Data.add(s.trace, s.cluster, s.varied, metric, policy, at, e.N, e.Mean, e.Low, e.High)
					if e.N == 0 {
						continue
					}
					largest = max(largest, e.Mean)
					aside := (float64(k) - float64(len(policies)-1)/2) * room / 6 // so that intervals do not hide each other
					line.X, line.Y = append(line.X, values[l]+aside), append(line.Y, e.Mean)
					line.Low, line.High = append(line.Low, math.Max(e.Low, 0)), append(line.High, e.High)
				}
				panel.Lines = append(panel.Lines, line)
			}
			panel.Y = scaled(&panel, metric, largest)
			p.Chart.Panels = append(p.Chart.Panels, panel)
		}
	}
	for i, policy := range policies {
		p.Chart.Keys = append(p.Chart.Keys, draw.Key{Name: policy, Look: i})
	}
	return p, nil
}

// numbersOf reads numbers.
func numbersOf(texts []string) ([]float64, error) {
	out := make([]float64, len(texts))
	for i, text := range texts {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, err
		}
		out[i] = v
	}
	return out, nil
}

// valuesOf are those of a metric of a policy in a setting.
func valuesOf(all []Measure, s setting, metric, policy string) []float64 {
	var out []float64
	for i := range all {
		if m := &all[i]; m.setting() == s && m.Metric == metric && m.Policy == policy {
			out = append(out, m.Value)
		}
	}
	return out
}

// scaled is the axis of a metric up to a value. Times are drawn in the unit that suits.
func scaled(p *draw.Panel, metric string, largest float64) draw.Axis {
	axis := draw.Axis{Title: strings.ToUpper(label(metric)[:1]) + label(metric)[1:], Zero: true}
	if !strings.HasSuffix(metric, "_s") {
		return axis
	}
	unit := unitOf(largest)
	axis.Title += " (" + unit.name + ")"
	for i := range p.Lines {
		l := &p.Lines[i]
		for k := range l.Y {
			l.Y[k], l.Low[k], l.High[k] = l.Y[k]/unit.seconds, l.Low[k]/unit.seconds, l.High[k]/unit.seconds
		}
	}
	return axis
}
