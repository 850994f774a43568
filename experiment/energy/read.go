package energy

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Read reads measurements (CSV with a header). Columns are model, gpu (the GPU type), gpus (default 1), nodes
// (default 1), batch (samples of a step, for each GPU), step_s, and watts (of each GPU, may be empty). The table
// that is published with Zeus (NSDI 2023) is read, too: network, dataset, batch_size, optimizer,
// power_limit, time_per_epoch and average_power, all of one GPU type, which gpu names. Of its power limits
// the highest counts. It does not tell how many samples an epoch has: it is taken to have 1,000.
// An error names the line.
func Read(in io.Reader, gpu string) ([]Sample, error) {
	r := csv.NewReader(in)
	r.TrimLeadingSpace, r.FieldsPerRecord = true, -1
	header, err := r.Read()
	if err != nil {
		return nil, fmt.Errorf("no header: %w", err)
	}
	t := table{at: map[string]int{}, gpu: gpu}
	for i, name := range header {
		t.at[strings.TrimSpace(strings.TrimPrefix(name, "\ufeff"))] = i
	}
	must := []string{"model", "batch", "step_s"}
	if _, zeus := t.at["time_per_epoch"]; zeus {
		must, t.zeus = []string{"network", "dataset", "batch_size", "optimizer", "power_limit", "average_power"}, true
	}
	for _, name := range must {
		if _, ok := t.at[name]; !ok {
			return nil, fmt.Errorf("no column %s: there are %s", name, strings.Join(header, ", "))
		}
	}
	for {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err // it names the line
		}
		line, _ := r.FieldPos(0)
		if err := t.add(record); err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
	}
	if len(t.rows) == 0 {
		return nil, errors.New("no measurements")
	}
	return t.highest(), nil
}

// table is what was read so far.
type table struct {
	at   map[string]int
	gpu  string
	zeus bool
	rows []limited
}

// limited is a sample under a power limit, in watts.
type limited struct {
	Sample
	limit int
}

// ZeusEpoch is how many samples an epoch is taken to have where a table does not tell.
const ZeusEpoch = 1000

// mostSamples bounds batches, GPUs and nodes.
const mostSamples = 1 << 30

func (t *table) add(record []string) (err error) {
	number := func(name string, otherwise float64) float64 {
		i, ok := t.at[name]
		if !ok || i >= len(record) || strings.TrimSpace(record[i]) == "" {
			return otherwise
		}
		v, bad := strconv.ParseFloat(strings.TrimSpace(record[i]), 64)
		if bad != nil || !(v >= 0 && v <= mostSamples) {
			err = errors.Join(err, fmt.Errorf("%s: %q is not a number from 0 to %d", name, record[i], mostSamples))
		}
		return v
	}
	text := func(name string) string {
		if i, ok := t.at[name]; ok && i < len(record) {
			return strings.TrimSpace(record[i])
		}
		return ""
	}
	s := limited{Sample: Sample{
		Model: text("model"), GPU: text("gpu"), GPUs: int(number("gpus", 1)), Nodes: int(number("nodes", 1)), Batch: int(number("batch", 0)),
		Step: number("step_s", 0), Watts: number("watts", 0),
	}}
	if t.zeus {
		s.Model = text("network") + "/" + text("dataset") + "/" + text("optimizer")
		s.Batch, s.Watts, s.limit = int(number("batch_size", 0)), number("average_power", 0), int(number("power_limit", 0))
		s.Step = number("time_per_epoch", 0) * float64(s.Batch) / ZeusEpoch
	}
	if s.GPU == "" {
		s.GPU = t.gpu
	}
	if err != nil {
		return err
	}
	if err := s.check(); err != nil {
		return err
	}
	t.rows = append(t.rows, s)
	return nil
}

// highest are the samples with the highest power limit of each model and GPU type.
func (t *table) highest() (all []Sample) {
	most := map[[2]string]int{}
	for _, r := range t.rows {
		k := [2]string{r.Model, r.GPU}
		most[k] = max(most[k], r.limit)
	}
	for _, r := range t.rows {
		if r.limit == most[[2]string{r.Model, r.GPU}] {
			all = append(all, r.Sample)
		}
	}
	return all
}

// ByModel divides samples by model and GPU type, in the order of their names.
func ByModel(samples []Sample) (all [][]Sample) {
	of := map[string][]Sample{}
	for _, s := range samples {
		k := s.Model + "\x00" + s.GPU
		of[k] = append(of[k], s)
	}
	for _, k := range slices.Sorted(maps.Keys(of)) {
		all = append(all, of[k])
	}
	return all
}
