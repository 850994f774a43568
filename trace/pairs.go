package trace

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
)

// Pairs is what was measured of jobs on one GPU, two at a time.
type Pairs struct {
	File   string     // that they were read from; empty: from none
	Table  perf.Pairs // by Profile.Name, or by model alone
	Models []Profile  // what was measured, by name; of jobs of one GPU

	known map[string]bool // names of Models
}

// Profile is a sort of job of which something was measured.
type Profile struct {
	Model, Dataset string
	Batch          int
	Mixed          bool // trains in mixed precision

	GPUUse, MemoryUse float64    // alone, 0 to 1; 0: not told
	GPUMemory         unit.Bytes // alone; 0: not told
}

// Name tells sorts of jobs apart.
func (p *Profile) Name() string {
	if p.Dataset == "" && p.Batch == 0 {
		return p.Model
	}
	name := p.Model + ", " + p.Dataset + ", batch " + strconv.Itoa(p.Batch)
	if p.Mixed {
		name += ", mixed"
	}
	return name
}

// ReadPairs reads a table of speeds that two jobs on one GPU have, relative to those
// alone, in one of three layouts, told from the content; the file may be packed.
//
//   - Lucid (colocate_info.csv): models with data set, batch size and precision. The
//     file single_data.csv beside it, if there is one, tells what each uses alone.
//   - Gavel (JSON): steps per second by GPU type, alone and beside others. Two jobs
//     that did not fit into the memory together all but stand still beside each other.
//   - Norn's own (CSV): model, beside, speed, and perhaps type, a GPU type; one line for
//     each direction.
//
// A pair that was measured to be faster than alone counts as not disturbed. An error
// names the file and the line or the job type.
func ReadPairs(path string) (*Pairs, error) {
	content, err := readPacked(path)
	if err != nil {
		return nil, err
	}
	p, err := ParsePairs(content)
	if err == nil {
		p.File = path
		err = p.lucidUses(BesidePairs(path))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

// BesidePairs is the file that ReadPairs reads beside a table of Lucid, if there is one.
func BesidePairs(path string) string { return filepath.Join(filepath.Dir(path), "single_data.csv") }

// ParsePairs is ReadPairs for the content of a file that is not packed.
func ParsePairs(content []byte) (*Pairs, error) {
	p := &Pairs{Table: perf.Pairs{Speed: map[perf.Pair]float64{}}, known: map[string]bool{}}
	p.Table.Sort = p.sort
	read := p.readTable
	if strings.HasPrefix(strings.TrimSpace(string(content[:min(64, len(content))])), "{") {
		read = p.readGavel
	}
	if err := read(content); err != nil {
		return nil, err
	}
	if len(p.Table.Speed) == 0 {
		return nil, errors.New("has no pairs")
	}
	slices.SortFunc(p.Models, func(a, b Profile) int { return strings.Compare(a.Name(), b.Name()) })
	return p, p.Table.Check()
}

// sort is the name under which a job was measured: its own, that of its very
// configuration, or that of its model.
func (p *Pairs) sort(j *job.Job) string {
	if p.known[j.Name] {
		return j.Name
	}
	like := Profile{Model: j.Model, Dataset: j.Dataset, Batch: j.Batch, Mixed: j.Hints != nil && j.Hints.Mixed}
	if name := like.Name(); p.known[name] {
		return name
	}
	return j.Model
}

// standstill is the speed of jobs that cannot be on a GPU together.
const standstill = 0.01

// add takes in that a was measured at a speed beside b.
func (p *Pairs) add(a, b Profile, typ string, speed float64) {
	p.Table.Speed[perf.Pair{Job: a.Name(), Beside: b.Name(), Type: typ}] = min(1, max(standstill, speed))
	for _, m := range []Profile{a, b} {
		if name := m.Name(); !p.known[name] {
			p.known[name], p.Models = true, append(p.Models, m)
		}
	}
}

// readGavel reads pairs of jobs of one GPU each.
func (p *Pairs) readGavel(content []byte) error {
	var all map[string]map[string]map[string]json.RawMessage
	if err := json.Unmarshal(content, &all); err != nil {
		return err
	}
	for typ, jobs := range all {
		if strings.HasSuffix(typ, "_unconsolidated") {
			continue
		}
		for key, speeds := range jobs {
			model, gpus, ok := gavelKey(key)
			if !ok {
				return fmt.Errorf("%q is not a job type and a number of GPUs", key)
			}
			if gpus != 1 {
				continue
			}
			if err := p.gavelPairs(strings.ToLower(typ), model, speeds); err != nil {
				return fmt.Errorf("%s, %q: %w", typ, key, err)
			}
		}
	}
	return nil
}

func (p *Pairs) gavelPairs(typ, model string, speeds map[string]json.RawMessage) error {
	var alone float64
	if err := json.Unmarshal(speeds["null"], &alone); err != nil {
		return fmt.Errorf("the speed alone: %w", err)
	}
	if alone <= 0 { // it does not run on this type
		return nil
	}
	for other, raw := range speeds {
		beside, gpus, ok := gavelKey(other)
		if !ok || gpus != 1 {
			continue
		}
		var both []float64
		if err := json.Unmarshal(raw, &both); err != nil || len(both) != 2 {
			return fmt.Errorf("beside %q: want two speeds", other)
		}
		p.add(Profile{Model: model}, Profile{Model: beside}, typ, both[0]/alone)
	}
	return nil
}

// readTable reads CSV with a header, in the layout that the header tells.
func (p *Pairs) readTable(content []byte) error {
	rows, index, err := csvRows(content)
	if err != nil {
		return err
	}
	switch {
	case index.have("model1", "speed1", "model2", "speed2"):
		return p.lucidPairs(rows, index)
	case index.have("model", "beside", "speed"):
		return p.ownPairs(rows, index)
	}
	return errors.New("is no table of pairs: it has neither the columns model, beside, speed nor model1, speed1, model2, speed2")
}

// columns are places in a row by name.
type columns map[string]int

func (c columns) have(names ...string) bool {
	return !slices.ContainsFunc(names, func(name string) bool {
		_, ok := c[name]
		return !ok
	})
}

func csvRows(content []byte) (rows [][]string, index columns, err error) {
	r := csv.NewReader(bytes.NewReader(content))
	rows, err = r.ReadAll()
	if err != nil {
		return nil, nil, err
	}
	if len(rows) == 0 {
		return nil, nil, errors.New("is empty")
	}
	index = columns{}
	for at, name := range slices.Backward(rows[0]) { // of two of a name the first counts
		index[name] = at
	}
	return rows[1:], index, nil
}

func (p *Pairs) ownPairs(rows [][]string, index columns) error {
	for i, row := range rows {
		speed, err := index.number(row, "speed")
		if err != nil || !(speed > 0) {
			return fmt.Errorf("line %d: speed %q: write a number above 0", i+2, index.text(row, "speed"))
		}
		if index.text(row, "model") == "" || index.text(row, "beside") == "" {
			return fmt.Errorf("line %d: has no model or no beside", i+2)
		}
		p.add(Profile{Model: index.text(row, "model")}, Profile{Model: index.text(row, "beside")}, strings.ToLower(index.text(row, "type")), speed)
	}
	return nil
}

func (p *Pairs) lucidPairs(rows [][]string, index columns) error {
	for i, row := range rows {
		var side [2]Profile
		var speed [2]float64
		for k, suffix := range []string{"1", "2"} {
			m, err := index.profile(row, suffix)
			if err == nil {
				speed[k], err = index.number(row, "speed"+suffix)
			}
			if err != nil {
				return fmt.Errorf("line %d: %w", i+2, err)
			}
			side[k] = m
		}
		p.add(side[0], side[1], "", speed[0])
		p.add(side[1], side[0], "", speed[1])
	}
	return nil
}

// lucidUses reads what jobs use alone, if there is a file that tells.
func (p *Pairs) lucidUses(path string) error {
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	rows, index, err := csvRows(content)
	if err != nil {
		return fmt.Errorf("beside it, single_data.csv: %w", err)
	}
	for i, row := range rows {
		m, err := index.profile(row, "")
		if err != nil {
			return fmt.Errorf("beside it, single_data.csv, line %d: %w", i+2, err)
		}
		for k, to := range map[string]*float64{"gpu_util": &m.GPUUse, "gmem_util": &m.MemoryUse} {
			v, err := index.number(row, k)
			if err != nil {
				return fmt.Errorf("beside it, single_data.csv, line %d: %w", i+2, err)
			}
			*to = min(1, v/100)
		}
		if mib, err := index.number(row, "gmem"); err == nil && mib > 0 && mib < float64(mostMemory/unit.MiB) {
			m.GPUMemory = unit.Bytes(mib * float64(unit.MiB))
		}
		if at := slices.IndexFunc(p.Models, func(x Profile) bool { return x.Name() == m.Name() }); at >= 0 {
			p.Models[at] = m
		}
	}
	return nil
}

// profile reads what tells a sort of jobs apart, from columns with a suffix.
func (c columns) profile(row []string, suffix string) (m Profile, err error) {
	m.Model, m.Dataset = c.text(row, "model"+suffix), c.text(row, "dataset"+suffix)
	batch, err := c.number(row, "batchsize"+suffix)
	if err != nil {
		return m, err
	}
	if batch < 0 || batch > mostBatch {
		return m, fmt.Errorf("batchsize%s %g: from 0 to %d are allowed", suffix, batch, int64(mostBatch))
	}
	m.Batch, m.Mixed = int(batch), c.text(row, "amp"+suffix) == "1"
	if m.Model == "" {
		return m, errors.New("has no model")
	}
	return m, nil
}

func (c columns) text(row []string, name string) string {
	if at, ok := c[name]; ok && at < len(row) {
		return strings.TrimSpace(row[at])
	}
	return ""
}

func (c columns) number(row []string, name string) (float64, error) {
	v, ok := ParseFloat([]byte(c.text(row, name)))
	if !ok {
		return 0, fmt.Errorf("%s %q is not a number", name, c.text(row, name))
	}
	return v, nil
}
