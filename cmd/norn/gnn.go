package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/internal/fileio"
	"github.com/norn-scheduler/norn/internal/grid"
	"github.com/norn-scheduler/norn/policy/bytegnn/partition"
	"github.com/norn-scheduler/norn/policy/bytegnn/pipeline"
)

func gnnCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "gnn",
		Short: "Divide a graph among workers, and simulate the pipeline of a job that trains on it",
		Long: `Gnn has what one job needs that trains on a graph, after ByteGNN (VLDB 2022): partitions of
the graph, and the division of cores between sampling and training. Policy bytegnn divides
cores between jobs (norn policies bytegnn).`,
		Example: `  norn gnn partition --vertices 100000 --edges 1000000 --parts 8
  norn gnn pipeline --cores 16 --sampling 3 --training 1`,
	}
	cmd.AddCommand(new(partitionFlags).command(), new(pipelineFlags).command())
	return cmd
}

// partitionFlags is what norn gnn partition was asked.
type partitionFlags struct {
	vertices, edges, communities int
	inside, train                float64
	parts, hops                  int
	seed                         uint64
	method, out                  string
}

func (f *partitionFlags) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "partition [FILE]",
		Short: "Divide the vertices of a graph among workers, and compare ways to do it",
		Long: `Partition reads the edges of a graph, a line "FROM TO" each, vertices being numbered from 0,
and divides its vertices by hashing, by the blocks of ByteGNN, and by multilevel partitioning
as METIS does. Without a FILE it makes a graph whose degrees follow a power law.

CUT is the part of the edges between workers. VERTICES and TRAIN are the most that a worker
has over the mean, of all vertices and of those that are trained on. REMOTE is the part of
what sampling reads that is on other workers. --out writes the worker of each vertex.`,
		Example: `  norn gnn partition --vertices 100000 --edges 1000000 --parts 8
  norn gnn partition edges.txt --parts 4 --hops 2 --method bytegnn --out parts.txt`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	fl := cmd.Flags()
	fl.IntVar(&f.vertices, "vertices", 100_000, "without a FILE: vertices of the graph that is made")
	fl.IntVar(&f.edges, "edges", 1_000_000, "without a FILE: its edges")
	fl.IntVar(&f.communities, "communities", 50, "without a FILE: its communities")
	fl.Float64Var(&f.inside, "inside", 0.8, "without a FILE: part of the edges within a community, 0 to 1")
	fl.Float64Var(&f.train, "train", 0.1, "part of the vertices that are trained on, drawn by --seed, 0 to 1")
	fl.IntVar(&f.parts, "parts", 4, "workers")
	fl.IntVar(&f.hops, "hops", 2, "hops of the model")
	fl.Uint64Var(&f.seed, "seed", 1, "equal seeds give equal results")
	fl.StringVar(&f.method, "method", "", "only this way: hash, bytegnn or multilevel")
	fl.StringVar(&f.out, "out", "", "with --method: file to write, a line with the worker of each vertex")
	complete(cmd, map[string]completer{"method": words("hash", "bytegnn", "multilevel")})
	return cmd
}

func (f *partitionFlags) check() error {
	switch {
	case f.parts < 1 || f.parts > 10_000:
		return misused("--parts %d: write 1 to 10000", f.parts)
	case f.hops < 0 || f.hops > 10:
		return misused("--hops %d: write 0 to 10", f.hops)
	case !(f.train >= 0 && f.train <= 1), !(f.inside >= 0 && f.inside <= 1):
		return misused("--train and --inside are parts, 0 to 1")
	case f.vertices < 1 || f.edges < 0 || f.communities < 1 || f.vertices > 1<<28 || f.edges > 1<<30:
		return misused("a graph needs vertices, edges and communities, fewer than a billion")
	case f.out != "" && f.method == "":
		return misused("--out needs --method")
	}
	return nil
}

func (f *partitionFlags) run(cmd *cobra.Command, args []string) error {
	if err := f.check(); err != nil {
		return err
	}
	g, err := f.graph(args)
	if err != nil {
		return err
	}
	seeds := partition.Seeds{Train: partition.Draw(g.Vertices(), f.train, f.seed)}
	ways := []struct {
		name string
		of   func() []int32
	}{
		{"hash", func() []int32 { return partition.ByHash(g.Vertices(), f.parts) }},
		{"bytegnn", func() []int32 { return partition.ByBlocks(g, seeds, f.hops, f.parts) }},
		{"multilevel", func() []int32 { return partition.Multilevel(g, f.parts) }},
	}
	t := grid.Table{Cols: columns("method", "cut", "vertices", "train", "remote", "took")}
	for _, way := range ways {
		if f.method != "" && f.method != way.name {
			continue
		}
		begun := time.Now()
		of := way.of()
		took := time.Since(begun)
		q := partition.Measure(g, of, f.parts, seeds.Train, f.hops)
		t.Add(way.name, fmt.Sprintf("%.1f%%", 100*q.Cut), fmt.Sprintf("%.3f", q.Vertices), fmt.Sprintf("%.3f", q.Train), fmt.Sprintf("%.1f%%", 100*q.Remote), unit.Human(took.Round(time.Millisecond)))
		if f.out != "" {
			if err := writeParts(f.out, of); err != nil {
				return err
			}
		}
	}
	if len(t.Rows) == 0 {
		return misused("--method %s: write hash, bytegnn or multilevel", f.method)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%d vertices, %d edges, %d trained on, %d workers, %d hops\n\n", g.Vertices(), g.Edges(), len(seeds.Train), f.parts, f.hops)
	return t.Write(cmd.OutOrStdout(), 0)
}

// graph reads the graph, or makes it.
func (f *partitionFlags) graph(args []string) (*partition.Graph, error) {
	if len(args) == 0 {
		return partition.NewGraph(f.vertices, partition.PowerLaw(f.vertices, f.edges, f.communities, f.inside, f.seed))
	}
	file, err := os.Open(args[0])
	if err != nil {
		return nil, err
	}
	defer file.Close()
	edges, vertices, err := readEdges(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", args[0], err)
	}
	return partition.NewGraph(vertices, edges)
}

// readEdges reads lines of two vertices. Empty lines and those that begin with # are passed over.
func readEdges(r io.Reader) (edges []partition.Edge, vertices int, err error) {
	in := bufio.NewScanner(r)
	for line := 1; in.Scan(); line++ {
		text := strings.TrimSpace(in.Text())
		if text == "" || text[0] == '#' {
			continue
		}
		f := strings.Fields(text)
		var ends [2]int64
		for i := range ends {
			if len(f) != 2 {
				return nil, 0, fmt.Errorf("line %d: %q is not two vertices", line, text)
			}
			if ends[i], err = strconv.ParseInt(f[i], 10, 32); err != nil || ends[i] < 0 || ends[i] >= 1<<28 {
				return nil, 0, fmt.Errorf("line %d: %q is no number of a vertex", line, f[i])
			}
			vertices = max(vertices, int(ends[i])+1)
		}
		edges = append(edges, partition.Edge{From: int32(ends[0]), To: int32(ends[1])})
	}
	if err := in.Err(); err != nil {
		return nil, 0, err
	}
	if len(edges) == 0 {
		return nil, 0, fmt.Errorf("there is no edge in it")
	}
	return edges, vertices, nil
}

// writeParts writes the worker of each vertex.
func writeParts(path string, of []int32) error {
	return fileio.Create(path, func(w io.Writer) error {
		out := bufio.NewWriter(w)
		for _, p := range of {
			out.WriteString(strconv.Itoa(int(p)) + "\n")
		}
		return out.Flush()
	})
}

// pipelineFlags is what norn gnn pipeline was asked.
type pipelineFlags struct {
	config           pipeline.Config
	hops             int
	sampling, remote float64
	course           bool
}

func (f *pipelineFlags) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pipeline",
		Short: "Simulate sampling and training side by side on some cores",
		Long: `Pipeline simulates the operators of a job that trains on a graph: for each batch it samples
so many hops and fetches their features, and trains. Cores are divided between both phases by
the queue of ready batches and towards balance (piped), or half and half (fixed), or each
batch has all cores for one phase after the other (coupled). FORETOLD is the rate of the
division that is balanced, of half the cores, and of one batch at a time.`,
		Example: `  norn gnn pipeline --cores 16 --sampling 3 --training 1
  norn gnn pipeline --cores 8 --sampling 2 --training 2 --hops 3 --remote 0.2 --course`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.OutOrStdout()) },
	}
	fl := cmd.Flags()
	fl.IntVar(&f.config.Cores, "cores", 16, "cores of the job")
	fl.Float64Var(&f.sampling, "sampling", 3, "core-seconds of sampling a batch")
	fl.Float64Var(&f.config.Plan.Train, "training", 1, "core-seconds of training on a batch")
	fl.IntVar(&f.hops, "hops", 2, "hops of the model")
	fl.Float64Var(&f.remote, "remote", 0, "seconds until another server answers, for each operator of sampling")
	fl.IntVar(&f.config.Batches, "batches", 1000, "batches that are trained on")
	fl.Float64Var(&f.config.Period, "period", 1, "seconds between steps of the controller")
	fl.BoolVar(&f.config.Borrow, "borrow", false, "an idle core of a phase runs operators of the other one")
	fl.BoolVar(&f.course, "course", false, "tell how the division of cores went, a line for each step of the controller")
	return cmd
}

// plan is the sampling of the hops: each next one reaches twice as far, and two thirds of its work are
// features.
func (f *pipelineFlags) plan() {
	sum := 0.0
	for h := range f.hops {
		sum += float64(int64(1) << h)
	}
	for h := range f.hops {
		each := f.sampling * float64(int64(1)<<h) / sum
		f.config.Plan.Hops = append(f.config.Plan.Hops, pipeline.Hop{Sample: each / 3, Feature: each * 2 / 3, Remote: f.remote})
	}
}

func (f *pipelineFlags) run(out io.Writer) error {
	if f.hops < 1 || f.hops > 10 {
		return misused("--hops %d: write 1 to 10", f.hops)
	}
	f.plan()
	t := grid.Table{Cols: columns("mode", "batches/s", "foretold", "cores busy", "cores that sample")}
	var course []pipeline.Sample
	for _, mode := range []pipeline.Mode{pipeline.Piped, pipeline.Fixed, pipeline.Coupled} {
		c := f.config
		c.Mode = mode
		r, err := pipeline.Simulate(c)
		if err != nil {
			return misused("%w", err)
		}
		split, text := c.Cores/2, strconv.Itoa(c.Cores/2)
		switch mode {
		case pipeline.Piped:
			s, tr := c.Plan.Costs()
			split = int(pipeline.Balanced(unit.Milli(c.Cores)*unit.One, unit.One, s, tr) / unit.One)
			text, course = meanSplit(r.Samples), r.Samples
		case pipeline.Coupled:
			text = "all in turn"
		}
		t.Add(mode.String(), fmt.Sprintf("%.3f", r.Rate), fmt.Sprintf("%.3f", c.Foretold(split)), fmt.Sprintf("%.1f%%", 100*r.Busy), text)
	}
	if err := t.Write(out, 0); err != nil || !f.course {
		return err
	}
	t = grid.Table{Cols: columns("second", "cores that sample", "ready batches", "in flight", "idle cores")}
	for _, s := range course {
		t.Add(fmt.Sprintf("%g", s.At), strconv.Itoa(s.Split), strconv.Itoa(s.Queue), strconv.Itoa(s.InFlight), strconv.Itoa(s.Idle))
	}
	fmt.Fprintln(out)
	return t.Write(out, 0)
}

// meanSplit is how many cores sampled on average in the second half.
func meanSplit(all []pipeline.Sample) string {
	sum, late := 0, all[len(all)/2:]
	for _, s := range late {
		sum += s.Split
	}
	return fmt.Sprintf("%.2f", float64(sum)/float64(max(1, len(late))))
}
