package trace

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
)

// Measured speeds that a caller names in Options.Profile, in the files in which
// they are published.

// readPacked is the content of a file, which may be packed.
func readPacked(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	body, err := unpack(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	defer body.close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(body); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return b.Bytes(), nil
}

// readColumns reads the named columns of a CSV file as numbers or, where they
// are none, as NaN; text gets the fields of the first name.
func readColumns(path string, names ...string) (text []string, rows [][]float64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	return columnsOf(f, path, names...)
}

// columns is readColumns of a file of the folder.
func (f *folder) columns(file string, names ...string) (text []string, rows [][]float64, err error) {
	in, err := f.open(file)
	if err != nil {
		return nil, nil, err
	}
	defer in.Close()
	return columnsOf(in, f.name(file), names...)
}

func columnsOf(in io.Reader, path string, names ...string) (text []string, rows [][]float64, err error) {
	body, err := unpack(in)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	defer body.close()
	rec := records{r: body, comma: ','}
	if err := rec.next(); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	index := make([]int, len(names))
	for i, name := range names {
		if index[i] = columnIndex(rec.fields, name, false); index[i] < 0 {
			return nil, nil, fmt.Errorf("%s: has no column %q", path, name)
		}
	}
	for {
		if err := rec.next(); errors.Is(err, io.EOF) {
			return text, rows, nil
		} else if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", path, err)
		}
		row := make([]float64, len(names))
		for i, at := range index {
			row[i] = math.NaN()
			if at < len(rec.fields) {
				if v, ok := ParseFloat(rec.fields[at]); ok {
					row[i] = v
				}
			}
		}
		if index[0] >= len(rec.fields) {
			return nil, nil, fmt.Errorf("%s, line %d: has too few fields", path, rec.line)
		}
		text = append(text, string(rec.fields[index[0]]))
		rows = append(rows, row)
	}
}

// gavelTable is steps per second by job type and number of GPUs.
type gavelTable map[string]map[int]float64

// readGavelProfile reads the speeds on GPUs of one type from a table of throughputs
// as Gavel and Shockwave publish them.
func readGavelProfile(path, gpu string) (gavelTable, error) {
	if gpu == "" {
		gpu = "v100"
	}
	var table gavelTable
	err := readGavelAlone(path, func(typ string) func(model string, gpus int, steps float64) {
		if typ != gpu {
			return nil
		}
		table = gavelTable{}
		return table.add
	})
	if err == nil && table == nil {
		err = fmt.Errorf("%s: has no throughputs of GPU type %q", path, gpu)
	}
	return table, err
}

func (t gavelTable) add(model string, gpus int, steps float64) {
	if t[model] == nil {
		t[model] = map[int]float64{}
	}
	t[model][gpus] = steps
}

// gavelKey splits "('ResNet-18 (batch size 64)', 2)".
func gavelKey(key string) (name string, gpus int, ok bool) {
	name, rest, ok := strings.Cut(strings.TrimPrefix(key, "('"), "', ")
	if !ok {
		return "", 0, false
	}
	gpus, err := strconv.Atoi(strings.TrimSuffix(rest, ")"))
	return name, gpus, err == nil && gpus >= 1 && gpus <= job.MaxTasks
}

// speed is as in gavelNominal.
func (t gavelTable) speed(jobType string, gpus int) (float64, bool) {
	at := 0
	for n, s := range t[jobType] {
		if n <= gpus && n > at && s > 0 {
			at = n
		}
	}
	if at == 0 {
		return 0, false
	}
	return t[jobType][at] * float64(gpus) / float64(at), true
}

// polluxProfile is the folder of profiles that is published with Sia, or an
// archive of it.
type polluxProfile struct {
	path, gpu string
	folder    *folder // nil: it has not been opened
	apps      map[string]*polluxMeasured
}

// polluxMeasured is one application of it.
type polluxMeasured struct {
	steps      []polluxStep
	iterations curve
}

// polluxStep is the time of a step on GPUs of so many nodes.
type polluxStep struct {
	gpus, nodes    int
	local, seconds float64
}

// speed is as in polluxNominal.
func (p *polluxProfile) speed(app string, gpus, batch int) (iterations, step float64, err error) {
	m, ok := p.apps[app]
	if !ok {
		if m, err = p.read(app); err != nil {
			return 0, 0, err
		}
		p.apps[app] = m
	}
	return iterationsAt(m.iterations, batch), m.step(gpus, float64(batch)/float64(gpus)), nil
}

func (p *polluxProfile) read(app string) (*polluxMeasured, error) {
	if p.folder == nil {
		folder, err := openFolder(p.path)
		if err != nil {
			return nil, err
		}
		p.folder = folder
	}
	inside := filepath.Base(app)
	if inner := path.Join("profiles", inside); len(p.folder.under(inside)) == 0 && len(p.folder.under(inner)) > 0 {
		inside = inner
	}
	name := "placements.csv"
	if p.gpu != "" {
		name = "placements-" + p.gpu + ".csv"
	}
	placements, rows, err := p.folder.columns(path.Join(inside, name), "placement", "local_bsz", "step_time")
	if err != nil {
		return nil, err
	}
	m := &polluxMeasured{}
	for i, digits := range placements {
		s := polluxStep{nodes: len(digits), local: rows[i][1], seconds: rows[i][2]}
		for _, d := range digits {
			s.gpus += int(d - '0')
		}
		if digits == "" || strings.Trim(digits, "0123456789") != "" || !measured(s.local) || !measured(s.seconds) {
			return nil, fmt.Errorf("%s, row %d: write a placement such as 44, a batch size and the time of a step above 0", p.folder.name(path.Join(inside, name)), i+1)
		}
		m.steps = append(m.steps, s)
	}
	if m.iterations, err = p.folder.iterations(inside); err != nil {
		return nil, err
	}
	if len(m.steps) == 0 || len(m.iterations) == 0 {
		return nil, fmt.Errorf("%s: holds no profile", p.folder.name(inside))
	}
	return m, nil
}

// measured tells whether a number can be that of something measured.
func measured(v float64) bool { return v > 0 && v <= mostAmount }

// iterations reads how many iterations training takes for each batch size.
func (f *folder) iterations(dir string) (curve, error) {
	var c curve
	for _, file := range f.under(dir) {
		name, found := strings.CutPrefix(path.Base(file), "validation-")
		batch, err := strconv.Atoi(strings.TrimSuffix(name, ".csv"))
		if !found || err != nil || batch < 1 {
			continue
		}
		_, rows, err := f.columns(file, "iteration")
		if err != nil {
			return nil, err
		}
		if len(rows) > 0 && measured(rows[len(rows)-1][0]) {
			c = append(c, knot{float64(batch), rows[len(rows)-1][0]})
		}
	}
	sortCurve(c)
	return c, nil
}

// step is the time of a step at the nearest measured number of GPUs, on as few
// nodes as were measured, between the measured batch sizes.
func (m *polluxMeasured) step(gpus int, local float64) float64 {
	distance := func(s *polluxStep) int { return abs(s.gpus-gpus)*100 + s.nodes }
	best := math.MaxInt
	for i := range m.steps {
		best = min(best, distance(&m.steps[i]))
	}
	var c curve
	for i := range m.steps {
		if s := &m.steps[i]; distance(s) == best {
			c = append(c, knot{s.local, s.seconds})
		}
	}
	sortCurve(c)
	return c.at(local)
}

func abs(n int) int { return max(n, -n) }

// readSynergyProfile reads seconds per iteration from the model summary of
// Synergy.
func readSynergyProfile(path, table string) (map[string]float64, error) {
	if table == "" {
		table = "models"
	}
	tables, _, err := readColumns(path, "table")
	if err != nil {
		return nil, err
	}
	models, rows, err := readColumns(path, "model", "gpus", "iter_time_base_s")
	if err != nil {
		return nil, err
	}
	seconds := map[string]float64{}
	for i, model := range models {
		if tables[i] == table && rows[i][1] == 1 && measured(rows[i][2]) {
			seconds[model] = rows[i][2]
		}
	}
	if len(seconds) == 0 {
		return nil, fmt.Errorf("%s: has no models of table %q", path, table)
	}
	return seconds, nil
}

// arenaTable is seconds per iteration: model and batch -> GPU type -> GPUs.
type arenaTable map[string]map[string]map[int]float64

// readArenaProfile reads the best measured plans of Arena.
func readArenaProfile(path string) (arenaTable, error) {
	table := arenaTable{}
	err := readArenaPlans(path, func(model string, c perf.Cell, seconds float64) {
		if table[model] == nil {
			table[model] = map[string]map[int]float64{}
		}
		if table[model][c.Type] == nil {
			table[model][c.Type] = map[int]float64{}
		}
		n := c.Nodes * c.Each
		if before, ok := table[model][c.Type][n]; seconds > 0 && (!ok || seconds < before) {
			table[model][c.Type][n] = seconds
		}
	})
	return table, err
}

// speed is as in arenaNominal: what was measured, or the nominal fit where it
// was not.
func (t arenaTable) speed(model, gpuType string, gpus, batch int) (float64, bool) {
	key := perf.LargeName(model) + "_" + strconv.Itoa(batch)
	if s, ok := t[key][strings.ToLower(gpuType)][gpus]; ok {
		return s, true
	}
	return arenaNominal(model, gpuType, gpus, batch)
}
