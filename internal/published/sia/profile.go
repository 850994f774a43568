package sia

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/norn-scheduler/norn/internal/published/harness"
	"github.com/norn-scheduler/norn/perf"
)

// group is what was measured for one placement, or for one number of nodes and
// replicas: times by the examples on each GPU, which rise.
type group struct {
	local      []int
	step, sync []float64 // seconds
}

// at is the times at so many examples: between two measured ones on a straight line,
// beyond them those of the nearest.
func (g *group) at(local int) (step, sync float64) {
	i, found := slices.BinarySearch(g.local, local)
	switch last := len(g.local) - 1; {
	case found:
		return g.step[i], g.sync[i]
	case i == 0:
		return g.step[0], g.sync[0]
	case i > last:
		return g.step[last], g.sync[last]
	}
	w := float64(local-g.local[i-1]) / float64(g.local[i]-g.local[i-1])
	return g.step[i-1] + w*(g.step[i]-g.step[i-1]), g.sync[i-1] + w*(g.sync[i]-g.sync[i-1])
}

func (g *group) most() int { return g.local[len(g.local)-1] }

// shape is a number of nodes and of replicas.
type shape struct{ nodes, replicas int }

// speeds is how fast an application is on one GPU type.
type speeds struct {
	placed map[string]*group // by placement, as the files write it
	shaped map[shape]*group  // means over placements, and what was measured at scale
	scaled map[shape]int     // the most examples on a GPU that were measured at scale
	most   map[int]int       // and with so many replicas, wherever

	localMin, localMost int
	rate                float64 // examples in a second of one replica, with the most of them
}

// epochs is the course of a training with one batch size.
type epochs struct {
	batch              int
	progress, sqr, vaR []float64 // after each epoch; noise in each
}

// application is what the simulator knows of a model.
type application struct {
	name   string
	types  map[string]*speeds
	runs   []epochs // by batch size
	epochs int      // after which it is done
}

func (a *application) first() int { return a.runs[0].batch }
func (a *application) most() int  { return a.runs[len(a.runs)-1].batch }

// progressAt is the progress after an epoch: the least over batch sizes.
func (a *application) progressAt(epoch int) float64 {
	if epoch == 0 {
		return 0
	}
	least := math.Inf(1)
	for i := range a.runs {
		least = min(least, a.runs[i].progress[epoch-1])
	}
	return least
}

// noise is that of gradients in an epoch at a batch size, between two measured ones on
// a straight line.
func (a *application) noise(batch, epoch int) perf.Noise {
	i, found := slices.BinarySearchFunc(a.runs, batch, func(e epochs, b int) int { return cmp.Compare(e.batch, b) })
	i = min(i, len(a.runs)-1)
	up := &a.runs[i]
	if found || i == 0 || batch > up.batch {
		return perf.Noise{Sqr: up.sqr[epoch], Var: up.vaR[epoch]}
	}
	low := &a.runs[i-1]
	w := float64(batch-low.batch) / float64(up.batch-low.batch)
	return perf.Noise{Sqr: low.sqr[epoch] + w*(up.sqr[epoch]-low.sqr[epoch]), Var: low.vaR[epoch] + w*(up.vaR[epoch]-low.vaR[epoch])}
}

// name is a placement as the files write it: replicas on each node, turned so that it
// comes first in order.
func placement(counts []int) string {
	least := counts
	for i := range counts {
		turned := append(slices.Clone(counts[i:]), counts[:i]...)
		if slices.Compare(turned, least) < 0 {
			least = turned
		}
	}
	var b strings.Builder
	for _, k := range least {
		b.WriteString(strconv.Itoa(k))
	}
	return b.String()
}

// times are those of a step on a placement.
func (s *speeds) times(counts []int, local int) (step, sync float64) {
	if g := s.placed[placement(counts)]; g != nil {
		return g.at(local)
	}
	return s.between(shapeOf(counts), local)
}

func shapeOf(counts []int) shape {
	k := 0
	for _, n := range counts {
		k += n
	}
	return shape{len(counts), k}
}

// between is the times on a placement that was not measured: on straight lines between
// the next numbers of nodes, and of replicas on them, that were. The published code
// lays tetrahedra between nodes, replicas and examples.
func (s *speeds) between(at shape, local int) (step, sync float64) {
	low, high := 0, math.MaxInt
	for k := range s.shaped {
		if k.nodes <= at.nodes {
			low = max(low, k.nodes)
		}
		if k.nodes >= at.nodes {
			high = min(high, k.nodes)
		}
	}
	switch {
	case high == math.MaxInt:
		return s.along(shape{low, at.replicas}, local)
	case low == high || low == 0:
		return s.along(shape{high, at.replicas}, local)
	}
	w := float64(at.nodes-low) / float64(high-low)
	step1, sync1 := s.along(shape{low, at.replicas}, local)
	step2, sync2 := s.along(shape{high, at.replicas}, local)
	return step1 + w*(step2-step1), sync1 + w*(sync2-sync1)
}

// along is the times on a number of nodes that was measured.
func (s *speeds) along(at shape, local int) (step, sync float64) {
	low, high := 0, math.MaxInt
	for k := range s.shaped {
		if k.nodes != at.nodes {
			continue
		}
		if k.replicas <= at.replicas {
			low = max(low, k.replicas)
		}
		if k.replicas >= at.replicas {
			high = min(high, k.replicas)
		}
	}
	switch {
	case high == math.MaxInt:
		return s.shaped[shape{at.nodes, low}].at(local)
	case low == high || low == 0:
		return s.shaped[shape{at.nodes, high}].at(local)
	}
	w := float64(at.replicas-low) / float64(high-low)
	step1, sync1 := s.shaped[shape{at.nodes, low}].at(local)
	step2, sync2 := s.shaped[shape{at.nodes, high}].at(local)
	return step1 + w*(step2-step1), sync1 + w*(sync2-sync1)
}

// localMostOn is the most examples on each GPU of a placement.
func (s *speeds) localMostOn(counts []int) int {
	if g := s.placed[placement(counts)]; g != nil {
		return g.most()
	}
	at, most := shapeOf(counts), 0
	for k, local := range s.scaled {
		if k.nodes >= at.nodes && k.replicas >= at.replicas {
			most = max(most, local)
		}
	}
	if most == 0 { // beyond all that was measured
		return s.localMost
	}
	return most
}

// readApplication reads what was measured of an application on some GPU types. dir
// has its files: placements, scalability and validation.
func readApplication(dir, name string, types []string) (*application, error) {
	a := &application{name: name, types: map[string]*speeds{}, epochs: maxEpochs[name]}
	if a.epochs == 0 {
		return nil, fmt.Errorf("application %q is not one of bert, cifar10, deepspeech2, imagenet, ncf and yolov3", name)
	}
	for _, t := range types {
		suffix := "-" + t + ".csv"
		if t == unnamed {
			suffix = ".csv"
		}
		s, err := readSpeeds(filepath.Join(dir, name, "placements"+suffix), filepath.Join(dir, name, "scalability"+suffix))
		if err != nil {
			return nil, err
		}
		a.types[t] = s
	}
	files, err := filepath.Glob(filepath.Join(dir, name, "validation-*.csv"))
	if err != nil {
		return nil, err
	}
	for _, path := range files {
		base := strings.TrimSuffix(filepath.Base(path), ".csv")
		batch, ok := harness.Digits(strings.TrimPrefix(base, "validation-"))
		if !ok || batch < 1 || batch > math.MaxInt32 {
			return nil, fmt.Errorf("%s: the name does not tell a batch size", path)
		}
		e, err := readEpochs(path, a.epochs)
		if err != nil {
			return nil, err
		}
		e.batch = int(batch)
		a.runs = append(a.runs, e)
	}
	slices.SortFunc(a.runs, func(x, y epochs) int { return cmp.Compare(x.batch, y.batch) })
	if len(a.runs) == 0 {
		return nil, fmt.Errorf("%s has no validation-*.csv", filepath.Join(dir, name))
	}
	return a, nil
}

func readEpochs(path string, need int) (epochs, error) {
	var e epochs
	t, err := harness.OpenTable(path)
	if err != nil {
		return e, err
	}
	at, err := t.Need("progress", "grad_sqr", "grad_var")
	if err != nil {
		return e, err
	}
	for {
		more, err := t.Next()
		if err != nil {
			return e, err
		}
		if !more {
			break
		}
		for i, to := range []*[]float64{&e.progress, &e.sqr, &e.vaR} {
			x, err := t.Float(at[i])
			if err != nil {
				return e, err
			}
			if i == 0 && len(e.progress) > 0 && !(x >= e.progress[len(e.progress)-1]) || !(x >= 0) {
				return e, t.Bad(at[i], "a number that is not below 0, and progress that does not fall")
			}
			*to = append(*to, x)
		}
	}
	if len(e.progress) < need {
		return e, fmt.Errorf("%s has %d epochs, %d are needed", path, len(e.progress), need)
	}
	return e, nil
}

// sample is a line of a file of speeds.
type sample struct {
	where      string
	at         shape
	local      int
	step, sync float64
}

func readSpeeds(placements, scalability string) (*speeds, error) {
	s := &speeds{placed: map[string]*group{}, shaped: map[shape]*group{}, scaled: map[shape]int{}, most: map[int]int{}, localMin: math.MaxInt}
	placed, err := readSamples(placements, "placement", "local_bsz", "step_time", "sync_time")
	if err != nil {
		return nil, err
	}
	scaled, err := readSamples(scalability, "num_nodes", "local_bsz", "step_time", "sync_time", "num_replicas")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	if len(placed) == 0 {
		return nil, fmt.Errorf("%s has no lines", placements)
	}
	most, slowest := 0, 0.0 // of one replica
	byPlace, byShape := map[string][]sample{}, map[shape][]sample{}
	for _, x := range placed {
		byPlace[x.where] = append(byPlace[x.where], x)
		byShape[x.at] = append(byShape[x.at], x)
		s.localMin, s.localMost = min(s.localMin, x.local), max(s.localMost, x.local)
		s.most[x.at.replicas] = max(s.most[x.at.replicas], x.local)
		if x.at.replicas == 1 {
			most, slowest = max(most, x.local), max(slowest, x.step)
		}
	}
	if slowest > 0 {
		s.rate = float64(most) / slowest
	}
	for _, x := range scaled {
		byShape[x.at] = append(byShape[x.at], x)
		s.scaled[x.at] = max(s.scaled[x.at], x.local)
	}
	for k, all := range byPlace {
		s.placed[k] = grouped(all)
	}
	for k, all := range byShape {
		s.shaped[k] = grouped(all)
	}
	return s, nil
}

// readSamples reads a file of speeds; the columns are where, examples, the two times
// and, where it is not told by the digits of where, the number of replicas.
func readSamples(path string, columns ...string) (out []sample, err error) {
	t, err := harness.OpenTable(path)
	if err != nil {
		return nil, err
	}
	at, err := t.Need(columns...)
	if err != nil {
		return nil, err
	}
	for {
		more, err := t.Next()
		if err != nil || !more {
			return out, err
		}
		x := sample{where: t.Field(at[0])}
		var n [3]int64
		if n[0], err = t.Int(at[0]); err != nil {
			return nil, err
		}
		if n[1], err = t.Int(at[1]); err != nil {
			return nil, err
		}
		if x.step, err = t.Float(at[2]); err != nil {
			return nil, err
		}
		if x.sync, err = t.Float(at[3]); err != nil {
			return nil, err
		}
		if n[0] < 1 || n[1] < 1 || n[1] > math.MaxInt32 || !(x.step > 0) || !(x.sync >= 0 && x.sync < x.step) {
			return nil, t.Errorf("nodes and examples must be 1 or more, and step_time above sync_time")
		}
		x.local = int(n[1])
		if len(at) > 4 {
			if n[2], err = t.Int(at[4]); err != nil {
				return nil, err
			}
			if x.at = (shape{int(n[0]), int(n[2])}); n[2] < 1 {
				return nil, t.Bad(at[4], "1 or more")
			}
		} else {
			x.at.nodes = len(x.where)
			for _, d := range x.where {
				x.at.replicas += int(d - '0')
			}
		}
		out = append(out, x)
	}
}

// grouped is the means of samples by examples on a GPU.
func grouped(all []sample) *group {
	slices.SortStableFunc(all, func(a, b sample) int { return cmp.Compare(a.local, b.local) })
	g := &group{}
	for i := 0; i < len(all); {
		n, step, sync := 0, 0.0, 0.0
		for ; i+n < len(all) && all[i+n].local == all[i].local; n++ {
			step, sync = step+all[i+n].step, sync+all[i+n].sync
		}
		g.local = append(g.local, all[i].local)
		g.step, g.sync = append(g.step, step/float64(n)), append(g.sync, sync/float64(n))
		i += n
	}
	return g
}
