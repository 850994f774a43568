// Package planfile reads and writes what package parallel lives on: profiles of GPU types,
// measured iterations of parallel plans, and measured all-reduces.
//
// Files may be compressed (.gz). Their formats are described in docs/formats.md.
package planfile

import (
	"bytes"
	"compress/gzip"
	"embed"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/norn-scheduler/norn/internal/fileio"
	"github.com/norn-scheduler/norn/perf/parallel"
)

//go:embed *.json
var builtin embed.FS

// Vocabulary is that of GPT-2, which counts where a file names none.
const Vocabulary = 50257

// Names are the GPU types of which the program has a profile.
func Names() []string {
	files, _ := builtin.ReadDir(".") // the folder is part of the program
	var out []string
	for _, f := range files {
		out = append(out, strings.TrimSuffix(f.Name(), ".json"))
	}
	return out
}

// Open is the profile of a GPU type that the program has, or that of a file.
func Open(name string) (*parallel.Profile, error) {
	if slices.Contains(Names(), strings.ToLower(name)) {
		content, err := builtin.ReadFile(strings.ToLower(name) + ".json")
		if err != nil {
			return nil, err
		}
		return decode(name, content)
	}
	content, err := read(name)
	if os.IsNotExist(err) {
		return nil, fmt.Errorf("there is no profile of %s: name %s, or a file that norn model fit has written", name, strings.Join(Names(), ", "))
	}
	if err != nil {
		return nil, err
	}
	return decode(name, content)
}

// profileFile is a profile as it is written. Times are in microseconds, so that people
// can read them.
type profileFile struct {
	GPU        string        `json:"gpu"`
	Source     string        `json:"source"`
	PeakTFLOPS float64       `json:"peak_tflops"`
	MemoryGiB  float64       `json:"memory_gib"`
	Rates      ratesFile     `json:"rates"`
	Network    networkFile   `json:"network"`
	Timed      []operatorRow `json:"operators,omitempty"`
}

type ratesFile struct {
	LaunchUS  float64 `json:"launch_us"`
	TFLOPS    float64 `json:"tflops"`
	Attention float64 `json:"attention_gb_s"`
	Wide      float64 `json:"activations_gb_s"`
	Logit     float64 `json:"logits_gb_s"`
	Table     float64 `json:"table_gb_s"`
	Update    float64 `json:"update_gparams_s"`
}

type networkFile struct {
	NodeGPUs int              `json:"node_gpus"`
	Inside   float64          `json:"inside_gib_s"`    // of a GPU
	Between  float64          `json:"between_gibit_s"` // of a node
	Sharing  float64          `json:"sharing,omitempty"`
	Measured []allReducesFile `json:"all_reduces,omitempty"`
}

type allReducesFile struct {
	GPUs   int          `json:"gpus"`
	Points [][2]float64 `json:"mib_us"`
}

type operatorRow struct {
	Hidden     int     `json:"hidden"`
	Sequence   int     `json:"sequence"`
	Tensor     int     `json:"tensor"`
	MicroBatch int     `json:"micro_batch"`
	Layer      float64 `json:"layer_forward_us"`
	Embed      float64 `json:"embedding_us"`
	Head       float64 `json:"head_us"`
	Update     float64 `json:"update_layer_us"`
	Ends       float64 `json:"update_ends_us"`
}

const (
	micro = 1e-6
	giga  = 1e9
	tera  = 1e12
	mebi  = 1 << 20
	gibi  = 1 << 30
)

func decode(name string, content []byte) (*parallel.Profile, error) {
	var f profileFile
	d := json.NewDecoder(bytes.NewReader(content))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	r := f.Rates
	p := &parallel.Profile{GPU: f.GPU, Peak: f.PeakTFLOPS * tera, Memory: f.MemoryGiB * gibi,
		Rates:   parallel.Rates{Launch: r.LaunchUS * micro, Math: r.TFLOPS * tera, Attention: r.Attention * giga, Wide: r.Wide * giga, Logit: r.Logit * giga, Table: r.Table * giga, Update: r.Update * giga},
		Network: parallel.Network{NodeGPUs: f.Network.NodeGPUs, Inside: f.Network.Inside * gibi, Between: f.Network.Between * gibi / 8, Sharing: f.Network.Sharing}}
	for what, v := range map[string]float64{"rates.tflops": r.TFLOPS, "rates.attention_gb_s": r.Attention, "rates.activations_gb_s": r.Wide, "rates.logits_gb_s": r.Logit, "rates.table_gb_s": r.Table, "rates.update_gparams_s": r.Update, "rates.launch_us": r.LaunchUS, "network.inside_gib_s": f.Network.Inside, "network.between_gibit_s": f.Network.Between, "network.node_gpus": float64(f.Network.NodeGPUs)} {
		if !(v > 0) {
			return nil, fmt.Errorf("%s: %s is %v: write a number above 0", name, what, v)
		}
	}
	for _, o := range f.Timed {
		p.Timed = append(p.Timed, parallel.Timed{Shape: parallel.Shape{Hidden: o.Hidden, Sequence: o.Sequence, Tensor: o.Tensor, MicroBatch: o.MicroBatch},
			Operators: parallel.Operators{Layer: o.Layer * micro, Embed: o.Embed * micro, Head: o.Head * micro, Update: o.Update * micro, Ends: o.Ends * micro}})
	}
	for _, a := range f.Network.Measured {
		var points []parallel.Point
		for _, x := range a.Points {
			points = append(points, parallel.Point{Bytes: x[0] * mebi, Seconds: x[1] * micro})
		}
		if err := ascending(points); err != nil {
			return nil, fmt.Errorf("%s: all-reduces of %d GPUs: %w", name, a.GPUs, err)
		}
		measure(p, a.GPUs, points)
	}
	return p, nil
}

func measure(p *parallel.Profile, gpus int, points []parallel.Point) {
	if p.Network.Measured == nil {
		p.Network.Measured = map[int][]parallel.Point{}
	}
	p.Network.Measured[gpus] = points
}

// ascending says what is wrong with measured all-reduces, or nil.
func ascending(points []parallel.Point) error {
	before := 0.0
	for _, p := range points {
		if !(p.Bytes > before) || !(p.Seconds > 0) || math.IsInf(p.Bytes, 1) || math.IsInf(p.Seconds, 1) {
			return fmt.Errorf("%g bytes in %g s: write sizes that ascend, and times above 0", p.Bytes, p.Seconds)
		}
		before = p.Bytes
	}
	return nil
}

// Write writes a profile. Source says where its figures come from. Of measured all-reduces
// the sizes are kept that are enough for lines between them.
func Write(path string, p *parallel.Profile, source string) error {
	r, n := p.Rates, p.Network
	f := profileFile{GPU: p.GPU, Source: source, PeakTFLOPS: p.Peak / tera, MemoryGiB: p.Memory / gibi,
		Rates:   ratesFile{short(r.Launch / micro), short(r.Math / tera), short(r.Attention / giga), short(r.Wide / giga), short(r.Logit / giga), short(r.Table / giga), short(r.Update / giga)},
		Network: networkFile{NodeGPUs: n.NodeGPUs, Inside: n.Inside / gibi, Between: n.Between * 8 / gibi, Sharing: n.Sharing}}
	for gpus := range 1025 {
		if points := n.Measured[gpus]; len(points) > 0 {
			a := allReducesFile{GPUs: gpus}
			for _, x := range thin(points) {
				a.Points = append(a.Points, [2]float64{short(x.Bytes / mebi), short(x.Seconds / micro)})
			}
			f.Network.Measured = append(f.Network.Measured, a)
		}
	}
	for _, o := range p.Timed {
		f.Timed = append(f.Timed, operatorRow{o.Hidden, o.Sequence, o.Tensor, o.MicroBatch, short(o.Layer / micro), short(o.Embed / micro), short(o.Head / micro), short(o.Update / micro), short(o.Ends / micro)})
	}
	text, err := json.MarshalIndent(f, "", " ")
	if err != nil {
		return err
	}
	pairs := regexp.MustCompile(`\[\s+([^\s\[\]{}]+),\s+([^\s\[\]{}]+)\s+\]`)
	return fileio.Create(path, func(w io.Writer) error {
		_, err := w.Write(append(pairs.ReplaceAll(text, []byte("[$1, $2]")), '\n'))
		return err
	})
}

// short is a number with five digits.
func short(x float64) float64 {
	y, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 5, 64), 64)
	if err != nil {
		return x
	}
	return y
}

// thin leaves out points so that sizes grow by a quarter at least, but for the first and
// the last.
func thin(points []parallel.Point) []parallel.Point {
	var out []parallel.Point
	for i, p := range points {
		if i == 0 || i == len(points)-1 || p.Bytes >= 1.25*out[len(out)-1].Bytes {
			out = append(out, p)
		}
	}
	return out
}

// read is the content of a file, uncompressed.
func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var in io.Reader = f
	if filepath.Ext(path) == ".gz" {
		if in, err = gzip.NewReader(f); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	content, err := io.ReadAll(in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return bytes.TrimPrefix(content, []byte("\ufeff")), nil
}

// table reads a CSV file, whose header says at which place each column is.
func table(path string) (at map[string]int, rows [][]string, err error) {
	content, err := read(path)
	if err != nil {
		return nil, nil, err
	}
	all, err := csv.NewReader(bytes.NewReader(content)).ReadAll()
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(all) < 2 {
		return nil, nil, fmt.Errorf("%s: has no rows", path)
	}
	at = map[string]int{}
	for i, name := range all[0] {
		at[strings.ToLower(strings.TrimSpace(name))] = i
	}
	return at, all[1:], nil
}

// ReadMeasured reads iterations that were measured, with columns as vTrain publishes them:
// global batch, micro batch, hidden size, attention heads, # layers, sequence length, tensor
// parallelism, data parallelism, pipeline parallelism, iteration time (ms). The columns
// vocabulary and recompute (0 or 1) may be missing.
func ReadMeasured(path string) ([]parallel.Measured, error) {
	at, rows, err := table(path)
	if err != nil {
		return nil, err
	}
	var out []parallel.Measured
	for i, row := range rows {
		m := parallel.Measured{Model: parallel.Model{Vocabulary: Vocabulary}}
		again := 0
		for _, c := range []struct {
			name string
			to   *int
			must bool
		}{
			{"global batch", &m.Plan.GlobalBatch, true}, {"micro batch", &m.Plan.MicroBatch, true}, {"hidden size", &m.Model.Hidden, true},
			{"attention heads", &m.Model.Heads, true}, {"# layers", &m.Model.Layers, true}, {"sequence length", &m.Model.Sequence, true},
			{"tensor parallelism", &m.Plan.Tensor, true}, {"data parallelism", &m.Plan.Data, true}, {"pipeline parallelism", &m.Plan.Pipeline, true},
			{"vocabulary", &m.Model.Vocabulary, false}, {"recompute", &again, false},
		} {
			k, has := at[c.name]
			if !has && c.must {
				return nil, fmt.Errorf("%s: has no column %q", path, c.name)
			}
			if !has {
				continue
			}
			if *c.to, err = strconv.Atoi(strings.TrimSpace(row[k])); err != nil {
				return nil, fmt.Errorf("%s: line %d: %s is %q: write a whole number", path, i+2, c.name, row[k])
			}
		}
		k, has := at["iteration time (ms)"]
		if !has {
			return nil, fmt.Errorf("%s: has no column %q", path, "iteration time (ms)")
		}
		ms, err := strconv.ParseFloat(strings.TrimSpace(row[k]), 64)
		if err != nil || !(ms > 0) || math.IsInf(ms, 1) {
			return nil, fmt.Errorf("%s: line %d: iteration time (ms) is %q: write a number above 0", path, i+2, row[k])
		}
		m.Seconds, m.Plan.Recompute = ms/1000, again != 0
		if err := m.Plan.Check(m.Model); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", path, i+2, err)
		}
		out = append(out, m)
	}
	return out, nil
}

// ReadAllReduce adds all-reduces that were measured within a node to a profile: a file of
// columns size(B) and time(ns), as nccl-tests and vTrain write them, whose name tells the
// number of GPUs (a100_AR_GPU8_1M_1024M_LUT.csv.gz). Of several times the last counts, which
// is in place.
func ReadAllReduce(path string, p *parallel.Profile) error {
	of := regexp.MustCompile(`GPU(\d+)`).FindStringSubmatch(filepath.Base(path))
	if of == nil {
		return fmt.Errorf("%s: the name of the file does not tell the number of GPUs, such as in AR_GPU8.csv", path)
	}
	gpus, err := strconv.Atoi(of[1])
	if err != nil || gpus < 2 || gpus > 1024 {
		return fmt.Errorf("%s: all-reduces are measured on 2 to 1024 GPUs", path)
	}
	at, rows, err := table(path)
	if err != nil {
		return err
	}
	size, hasSize := at["size(b)"]
	took, hasTime := at["time(ns)"]
	if !hasSize || !hasTime {
		return fmt.Errorf("%s: has no columns size(B) and time(ns)", path)
	}
	var points []parallel.Point
	for i, row := range rows {
		bytes, err1 := strconv.ParseFloat(row[size], 64)
		ns, err2 := strconv.ParseFloat(row[took], 64)
		if err1 != nil || err2 != nil {
			return fmt.Errorf("%s: line %d: size or time is no number", path, i+2)
		}
		points = append(points, parallel.Point{Bytes: bytes, Seconds: ns * 1e-9})
	}
	if err := ascending(points); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	measure(p, gpus, points)
	return nil
}
