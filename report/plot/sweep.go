package plot

import (
	"cmp"
	"errors"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/stat/distuv"
)

// Measure is a line of the table of a sweep: one metric of one run.
type Measure struct {
	Trace, Cluster, Load, Seed string
	Varied                     string // further columns: name=value, with commas between them
	Policy                     string // with its settings
	Metric                     string
	Value                      float64
}

// setting is what measures must have in common to be compared.
type setting struct{ trace, cluster, load, varied string }

func (m *Measure) setting() setting { return setting{m.Trace, m.Cluster, m.Load, m.Varied} }

// plain are the columns of a sweep that say the same in each.
var plain = []string{"trace", "cluster", "load", "seed", "policy", "params", "metric", "value"}

// sweep adds the lines of a sweep. Those without a value are left out.
func (in *Input) sweep(path string, from io.Reader) error {
	t, err := newTable(from, path, "policy", "metric", "value", "seed")
	if err != nil {
		return err
	}
	var further []string
	for column := range t.columns {
		if !slices.Contains(plain, column) {
			further = append(further, column)
		}
	}
	slices.SortFunc(further, func(a, b string) int { return t.columns[a] - t.columns[b] })
	for {
		if err := t.next(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		v, err := t.number("value")
		if err != nil {
			return err
		}
		if math.IsNaN(v) {
			continue
		}
		m := Measure{
			Trace: t.text("trace"), Cluster: t.text("cluster"), Load: t.text("load"), Seed: t.text("seed"),
			Policy: policyName(t.text("policy"), t.text("params")), Metric: t.text("metric"), Value: v,
		}
		var varied []string
		for _, column := range further {
			varied = append(varied, column+"="+t.text(column))
		}
		m.Varied = strings.Join(varied, ", ")
		in.Measures = append(in.Measures, m)
	}
}

// policyName is a policy with its settings, as norn sim writes it.
func policyName(policy, params string) string {
	params = strings.Trim(strings.NewReplacer(";", ",", " ", ",").Replace(strings.TrimSpace(params)), ",")
	if params == "" || strings.Contains(policy, "(") {
		return policy
	}
	return policy + "(" + params + ")"
}

// Estimate is a mean over seeds with the interval in which it lies in 95 of 100 cases.
type Estimate struct {
	N               int
	Mean, Low, High float64 // Low and High are NaN for fewer than two values, and where all are equal
}

// estimate is the mean of values that are taken to be spread normally, with Student's interval.
func estimate(values []float64) Estimate {
	e := Estimate{N: len(values), Low: math.NaN(), High: math.NaN(), Mean: math.NaN()}
	if e.N == 0 {
		return e
	}
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	e.Mean = sum / float64(e.N)
	squares := 0.0
	for _, v := range values {
		squares += (v - e.Mean) * (v - e.Mean)
	}
	if e.N == 1 || squares == 0 {
		return e
	}
	half := student(e.N-1) * math.Sqrt(squares/float64(e.N-1)/float64(e.N))
	e.Low, e.High = e.Mean-half, e.Mean+half
	return e
}

// student is the 97.5 % quantile of Student's distribution with so many degrees of freedom.
func student(freedom int) float64 {
	return distuv.StudentsT{Sigma: 1, Nu: float64(freedom)}.Quantile(0.975)
}

// distinct are the values of measures in order of their first appearance; numbers from small to large
// where all are numbers.
func distinct(all []Measure, of func(*Measure) string) []string {
	var out []string
	seen, numeric := map[string]bool{}, true
	for i := range all {
		v := of(&all[i])
		if !seen[v] {
			seen[v] = true
			out = append(out, v)
			_, err := strconv.ParseFloat(v, 64)
			numeric = numeric && err == nil
		}
	}
	if numeric {
		slices.SortStableFunc(out, func(a, b string) int {
			x, _ := strconv.ParseFloat(a, 64)
			y, _ := strconv.ParseFloat(b, 64)
			return cmp.Compare(x, y)
		})
	}
	return out
}

// usual are the metrics that are shown where none are named, as sweeps call them.
var usual = []string{"jct_mean_s", "jct_p99_s", "wait_mean_s", "makespan_s", "rho_mean", "gpu_utilisation"}

// metrics are those that are wanted of those that are there.
func metrics(all []Measure, o Options) []string {
	there := distinct(all, func(m *Measure) string { return m.Metric })
	wanted := len(o.Metrics) > 0
	var out []string
	for _, name := range map[bool][]string{true: o.Metrics, false: usual}[wanted] {
		if slices.Contains(there, name) {
			out = append(out, name)
		}
	}
	if len(out) == 0 && !wanted {
		out = there[:min(len(there), len(usual))]
	}
	return out
}

// label is a metric as axes call it.
func label(metric string) string {
	known := map[string]string{
		"jct_mean_s": "mean JCT", "jct_median_s": "median JCT", "jct_p90_s": "p90 JCT", "jct_p99_s": "p99 JCT", "wait_mean_s": "mean wait", "wait_p99_s": "p99 wait",
		"makespan_s": "makespan", "rho_mean": "mean rho", "rho_worst": "worst rho", "gpu_utilisation": "utilisation", "preemptions": "preemptions",
	}
	if text, ok := known[metric]; ok {
		return text
	}
	return strings.ReplaceAll(strings.TrimSuffix(metric, "_s"), "_", " ")
}
