package experiment

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/policy/replica"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/trace"
)

// ReadData reads which regions have which data, as docs/formats.md describes it. Errors name the data set or region
// that they are about.
func ReadData(r io.Reader) (*replica.Catalogue, error) {
	var in struct {
		Data []struct {
			Name string   `json:"name"`
			Size string   `json:"size"`
			In   []string `json:"in"`
		} `json:"data"`
		Storage map[string]string `json:"storage"`
		GBps    float64           `json:"copy_gbps"`
	}
	from := json.NewDecoder(r)
	from.DisallowUnknownFields()
	if err := from.Decode(&in); err != nil {
		return nil, fmt.Errorf("is no catalogue of data: %w", err)
	}
	c := &replica.Catalogue{GBps: in.GBps, Storage: map[string]unit.Bytes{}}
	for _, d := range in.Data {
		size, err := unit.ParseBytes(d.Size)
		if err != nil {
			return nil, fmt.Errorf("data %q: size: %w", d.Name, err)
		}
		c.Data = append(c.Data, replica.Data{Name: d.Name, Size: size, In: d.In})
	}
	for _, name := range slices.Sorted(maps.Keys(in.Storage)) {
		var err error
		if c.Storage[name], err = unit.ParseBytes(in.Storage[name]); err != nil {
			return nil, fmt.Errorf("storage of region %q: %w", name, err)
		}
	}
	return c, c.Check()
}

// reading is a trace whose jobs ask for nodes that have the data which they read.
type reading struct {
	trace.Source
	data    *replica.Catalogue
	demands narrowed
	jobs    int // that tell data of which the catalogue has none
}

// newReading returns the trace itself where no data is told.
func newReading(src trace.Source, data *replica.Catalogue) (trace.Source, func() string) {
	if data == nil {
		return src, nothingToTell
	}
	r := &reading{Source: src, data: data}
	return r, r.remark
}

// Next implements trace.Source.
func (r *reading) Next(e *trace.Entry) error {
	err := r.Source.Next(e)
	if err != nil || e.Job.Dataset == "" || e.Job.Demand == nil {
		return err
	}
	reads := r.data.Reads(&e.Job)
	if len(reads) == 0 {
		r.jobs++
		return nil
	}
	labels := make([]string, len(reads))
	for i, d := range reads {
		labels[i] = sched.DataLabel + r.data.Data[d].Name
	}
	if e.Job.Demand, err = r.demands.get(e.Job.Demand, e.Job.Dataset, labels...); err != nil {
		return fmt.Errorf("job %s: %w", e.Job.Key, err)
	}
	return nil
}

// remark says how many jobs read what nobody knows.
func (r *reading) remark() string {
	if r.jobs == 0 {
		return ""
	}
	return fmt.Sprintf("--data tells nothing of the data that %s read: they may run in any region", unit.Count(r.jobs, "job"))
}

// mover moves data in one run; nil: it stays where it is.
func (x *Experiment) mover(c *cluster.Cluster) (sched.Mover, error) {
	if x.Data == nil {
		return nil, nil
	}
	if err := x.Data.Apply(c); err != nil {
		return nil, fmt.Errorf("--data: %w", err)
	}
	if x.Move == nil {
		return nil, nil
	}
	return x.Move.New(x.Data, c), nil
}

// copied says what was copied.
func (o *Outcome) copied() string {
	n, size := sim.Copied(o.Sim)
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("data was copied to another region %s, %v in all", unit.Count(n, "time"), size)
}
