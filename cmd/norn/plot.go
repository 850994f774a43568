package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/norn-scheduler/norn/internal/fileio"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/report/plot"
	"github.com/norn-scheduler/norn/report/plot/draw"
)

// plotFlags is what norn plot was asked.
type plotFlags struct {
	figures       []string
	out, data     string
	formats       []string
	width, height string
	serif         bool
	size          float64
	runs, labels  []string
	by            string
	options       plot.Options
	quiet         bool
}

func plotCommand() *cobra.Command {
	var f plotFlags
	cmd := &cobra.Command{
		Use:   "plot RESULT...",
		Short: "Draw figures for papers from results, as SVG and PDF, with their data as CSV",
		Long: `Plot draws figures from folders of norn sim --out, from event logs, and from the tables
of sweeps, in the widths and letters of papers. Without --figure it draws all figures for
which there are data into a folder. Each figure comes with its data as CSV.

The letters are Liberation Sans or, with --serif, Liberation Serif, which are as wide as
Arial and Times. A PDF has them in it. Colours, dashes and hatchings can be told apart in
grey and with any colour vision.

` + figuresText(),
		Example: `  norn plot results                                  all figures, into the folder figures
  norn plot results --figure jct -o jct.pdf --data jct.csv
  norn plot results --figure jct-class --by tenant -o tenants.svg --width double
  norn plot results --figure bars --baseline fifo --serif --size 9 -o bars.pdf
  norn plot results/fifo/events.log.zst --figure gantt -o gantt.svg
  norn plot sweep.csv --figure bars --baseline fifo -o bars.pdf
  norn plot results --run srtf --run fifo --label 'srtf=SRTF' --figure queue -o queue.pdf`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.plot(cmd, args) },
	}
	fl := cmd.Flags()
	fl.StringSliceVarP(&f.figures, "figure", "f", nil, "figures to draw, separated by commas; see the list above (default: all for which there are data)")
	fl.StringVarP(&f.out, "out", "o", "", "file of the figure, NAME.svg or NAME.pdf; of several figures their folder (default figures)")
	fl.StringVar(&f.data, "data", "", "file for the data of the figure, as CSV (default: of figures in a folder beside each)")
	fl.StringSliceVar(&f.formats, "format", []string{"svg", "pdf"}, "formats of figures in a folder: svg, pdf")
	fl.StringVarP(&f.width, "width", "w", "single", "width: single or double (columns of a paper, 3.33 and 7 inches), or a length such as 84mm, 3.3in, 240pt")
	fl.StringVar(&f.height, "height", "", "height, as a length (default: what the figure needs)")
	fl.BoolVar(&f.serif, "serif", false, "letters like Times instead of Arial")
	fl.Float64Var(&f.size, "size", 8, "size of letters in points")
	fl.StringArrayVarP(&f.runs, "run", "r", nil, "run to show, by its name; may be repeated, in order (default: all)")
	fl.StringArrayVar(&f.labels, "label", nil, "what a run is called in figures: name=label; may be repeated")
	fl.StringVarP(&f.options.Baseline, "baseline", "b", "", "run that bars are relative to (default: fifo, or else the first)")
	fl.StringSliceVar(&f.options.Metrics, "metric", nil, "metrics of bars and load, such as jct_mean_s,jct_p99_s (default: the usual ones)")
	fl.StringVar(&f.by, "by", "gpus", "classes of jobs in jct-class and wait-class, and colours of held and gantt: "+draw.Words(plot.Bys()))
	fl.BoolVarP(&f.quiet, "quiet", "q", false, "do not tell which files were written")
	complete(cmd, map[string]completer{
		"figure": words(figureNames()...), "width": words("single", "double"), "format": words("svg", "pdf"), "by": words(strings.Split(draw.Words(plot.Bys()), ", ")...),
		"metric": words("jct_mean_s", "jct_median_s", "jct_p99_s", "wait_mean_s", "makespan_s", "rho_mean"),
	})
	return cmd
}

func figureNames() []string {
	var out []string
	for _, f := range plot.Figures() {
		out = append(out, f.Name)
	}
	return out
}

// figuresText lists the figures for the help.
func figuresText() string {
	var b strings.Builder
	b.WriteString("Figures:\n")
	for _, f := range plot.Figures() {
		fmt.Fprintf(&b, "  %-14s %s\n", f.Name, f.About)
	}
	return strings.TrimRight(b.String(), "\n")
}

func (f *plotFlags) plot(cmd *cobra.Command, args []string) error {
	figures, err := f.chosen()
	if err != nil {
		return err
	}
	style, err := f.style()
	if err != nil {
		return err
	}
	if f.options.By = plot.By(f.by); !slices.Contains(plot.Bys(), f.options.By) {
		return misused("--by %s: write one of %s", f.by, draw.Words(plot.Bys()))
	}
	in := new(plot.Input)
	for _, path := range args {
		if err := in.Read(path); err != nil {
			return err
		}
	}
	if err := f.keep(in); err != nil {
		return err
	}
	one := len(f.figures) == 1 && draw.Format(strings.TrimPrefix(filepath.Ext(f.out), ".")).Known()
	if one {
		return f.single(cmd, figures[0], in, style)
	}
	if f.data != "" {
		return misused("--data is of one figure: name it with --figure, and its file with -o FILE.svg or FILE.pdf")
	}
	return f.folder(cmd, figures, in, style)
}

// chosen are the figures to draw.
func (f *plotFlags) chosen() ([]plot.Figure, error) {
	if len(f.figures) == 0 {
		return plot.Figures(), nil
	}
	var out []plot.Figure
	for _, name := range f.figures {
		one, ok := plot.Find(name)
		if !ok {
			return nil, misused("--figure %s: there is no such figure%s", name, param.Near(name, figureNames()))
		}
		out = append(out, one)
	}
	return out, nil
}

// style is what the flags say about looks.
func (f *plotFlags) style() (s draw.Style, err error) {
	s.Serif, s.Size = f.serif, f.size
	if !(f.size >= 4 && f.size <= 48) {
		return s, misused("--size %g: write 4 to 48 points", f.size)
	}
	switch f.width {
	case "single":
		s.Width = draw.SingleColumn
	case "double":
		s.Width = draw.DoubleColumn
	default:
		if s.Width, err = points(f.width); err != nil {
			return s, misused("--width: %w, single or double", err)
		}
	}
	if f.height != "" {
		if s.Height, err = points(f.height); err != nil {
			return s, misused("--height: %w", err)
		}
	}
	for _, name := range f.formats {
		if !draw.Format(name).Known() {
			return s, misused("--format %s: write one of %s", name, draw.Words(draw.Formats()))
		}
	}
	return s, nil
}

// points reads a length.
func points(text string) (float64, error) {
	for _, u := range []struct {
		name   string
		points float64
	}{{"mm", 72 / 25.4}, {"cm", 72 / 2.54}, {"in", 72}, {"pt", 1}} {
		if number, ok := strings.CutSuffix(text, u.name); ok {
			if v, err := strconv.ParseFloat(number, 64); err == nil && v*u.points >= 36 && v*u.points <= 7200 {
				return v * u.points, nil
			}
		}
	}
	return 0, fmt.Errorf("%q is no length from 36pt to 100in: write 84mm, 8.4cm, 3.3in or 240pt", text)
}

// keep keeps the runs that are wanted, in their order, and names them.
func (f *plotFlags) keep(in *plot.Input) error {
	if len(f.runs) > 0 {
		if err := in.Keep(f.runs); err != nil {
			return misused("--run %w", err)
		}
		f.options.Run = f.runs[0]
	}
	for _, text := range f.labels {
		at := strings.LastIndex(text, "=")
		if at <= 0 {
			return misused("--label %s: write name=label", text)
		}
		name, label := text[:at], text[at+1:]
		if err := in.Rename(name, label); err != nil {
			return misused("--label %w", err)
		}
		for _, to := range []*string{&f.options.Baseline, &f.options.Run} {
			if *to == name {
				*to = label
			}
		}
	}
	return nil
}

// single draws one figure into its file.
func (f *plotFlags) single(cmd *cobra.Command, figure plot.Figure, in *plot.Input, style draw.Style) error {
	p, err := figure.Make(in, f.options)
	if err != nil {
		return fmt.Errorf("figure %s: %w", figure.Name, err)
	}
	if err := writeChart(f.out, p, style); err != nil {
		return fmt.Errorf("figure %s: %w", figure.Name, err)
	}
	f.wrote(cmd, f.out)
	if f.data == "" {
		return nil
	}
	if err := fileio.CreateWhole(f.data, p.Data.Write); err != nil {
		return err
	}
	f.wrote(cmd, f.data)
	return nil
}

// writeChart writes a chart in the format that the name of its file tells.
func writeChart(path string, p *plot.Picture, style draw.Style) error {
	return fileio.CreateWhole(path, func(w io.Writer) error {
		return p.Chart.Write(w, draw.Format(strings.TrimPrefix(filepath.Ext(path), ".")), style)
	})
}

// folder draws figures into a folder, each with its data.
func (f *plotFlags) folder(cmd *cobra.Command, figures []plot.Figure, in *plot.Input, style draw.Style) error {
	dir := cmp.Or(f.out, "figures")
	if ext := filepath.Ext(dir); draw.Format(strings.TrimPrefix(ext, ".")).Known() {
		return misused("--out %s: name one figure with --figure for a file; several go into a folder", dir)
	}
	var drawn []string
	for _, figure := range figures {
		p, err := figure.Make(in, f.options)
		if errors.Is(err, plot.ErrNoData) && len(f.figures) == 0 {
			continue
		}
		if err != nil {
			return fmt.Errorf("figure %s: %w", figure.Name, err)
		}
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return err
		}
		for _, format := range f.formats {
			path := filepath.Join(dir, figure.Name+"."+format)
			if err := writeChart(path, p, style); err != nil {
				return fmt.Errorf("figure %s: %w", figure.Name, err)
			}
		}
		path := filepath.Join(dir, figure.Name+".csv")
		if err := fileio.CreateWhole(path, p.Data.Write); err != nil {
			return err
		}
		drawn = append(drawn, figure.Name)
	}
	if len(drawn) == 0 {
		return errors.New("there are no data for any figure")
	}
	f.wrote(cmd, dir+": "+strings.Join(drawn, ", ")+", each as "+strings.Join(append(slices.Clone(f.formats), "csv"), ", "))
	return nil
}

// wrote tells what was written.
func (f *plotFlags) wrote(cmd *cobra.Command, what string) {
	if !f.quiet {
		fmt.Fprintf(cmd.ErrOrStderr(), "norn: wrote %s\n", what)
	}
}
