package sia

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/perf"
)

// write writes the files of an application with two batch sizes, two epochs, and steps
// of a second and a hundredth for each example, of which a tenth is exchange when there
// are several replicas.
func write(t *testing.T, dir, name, suffix string) {
	t.Helper()
	var placed, scaled strings.Builder
	placed.WriteString("placement,local_bsz,step_time,sync_time\n")
	for _, p := range []string{"1", "2", "4", "12", "44"} {
		for _, m := range []int{10, 20, 40} {
			step := 1 + float64(m)/100
			fmt.Fprintf(&placed, "%s,%d,%g,%g\n", p, m, step, map[bool]float64{true: 0, false: step / 10}[p == "1"])
		}
	}
	scaled.WriteString("num_nodes,num_replicas,local_bsz,step_time,sync_time\n4,8,10,3,1\n4,8,20,4,2\n")
	put := func(file, text string) {
		path := filepath.Join(dir, name, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put("placements"+suffix+".csv", placed.String())
	put("scalability"+suffix+".csv", scaled.String())
	put("validation-20.csv", "progress,iteration,metric,grad_sqr,grad_var\n100,100,1,1,1\n200,200,2,1,3\n")
	put("validation-80.csv", "progress,iteration,metric,grad_sqr,grad_var\n90,30,1,1,2\n210,60,2,1,5\n")
}

func app(t *testing.T) *application {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, "bert", "")
	a, err := readApplication(dir, "bert", []string{unnamed})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// Measurements are read as they are: exact at measured points, on straight
// lines between, and with placements turned so that they come first.
func TestApplication(t *testing.T) {
	a := app(t)
	s := a.types[unnamed]
	for _, c := range []struct {
		on         []int
		local      int
		step, sync float64
	}{
		{[]int{1}, 10, 1.1, 0}, {[]int{2}, 15, 1.15, .115}, {[]int{2, 1}, 20, 1.2, .12}, {[]int{2}, 100, 1.4, .14},
		{[]int{3}, 10, 1.1, .11},                              // between two replicas and four
		{[]int{2, 2, 2, 2}, 15, 3.5, 1.5},                     // measured at scale
		{[]int{3, 3, 2}, 10, (1.1 + 3) / 2, .555},             // between two nodes and four
		{[]int{2, 2, 2, 2, 2}, 10, 3, 1},                      // beyond all nodes
		{[]int{5, 3}, 10, 1.1, .11}, {[]int{8}, 10, 1.1, .11}, // beyond all replicas
	} {
		step, sync := s.times(c.on, c.local)
		if math.Abs(step-c.step) > 1e-9 || math.Abs(sync-c.sync) > 1e-9 {
			t.Errorf("%v with %d examples takes %v, %v, want %v, %v", c.on, c.local, step, sync, c.step, c.sync)
		}
	}
	if a.first() != 20 || a.most() != 80 || a.progressAt(0) != 0 || a.progressAt(1) != 90 || a.progressAt(2) != 200 {
		t.Errorf("batches %d to %d, progress %v, %v", a.first(), a.most(), a.progressAt(1), a.progressAt(2))
	}
	if n := a.noise(50, 1); n != (perf.Noise{Sqr: 1, Var: 4}) {
		t.Errorf("noise %v", n)
	}
	if got := s.localMostOn([]int{2, 2, 2, 2}); got != 20 {
		t.Errorf("%d examples at scale", got)
	}
}

// A job begins with the first batch size, loses the time of its restart, goes from
// epoch to epoch in whole seconds, and is tuned at each.
func TestTask(t *testing.T) {
	task := &task{app: app(t), quirks: &ofPollux, restarts: -1, end: -1}
	task.move(unnamed, []int{1})
	if task.restarts != 0 || task.pause != 30 || task.batch != (perf.Batch{Local: 20}) {
		t.Fatalf("it begins with %+v", task)
	}
	task.step(20)
	if task.progress != 0 || task.pause != 10 || task.service != 20 {
		t.Fatalf("after 20 s: %+v", task)
	}
	task.step(60)
	if want := 50 / 1.2; math.Abs(task.progress-want) > 1e-9 || !task.fit("").fitted || len(task.fit("").measured) != 1 || task.fit("").largest != 1 {
		t.Fatalf("progress %v, want %v", task.progress, want)
	}
	for task.end < 0 {
		task.step(60)
		if size := task.batch.Local * (task.batch.Accum + 1); size < 20 || size > 80 {
			t.Fatalf("batch %v", task.batch)
		}
	}
	if task.epoch != 2 || task.progress != 200 {
		t.Errorf("it ends with %+v", task)
	}
}

// To go to other nodes in like numbers costs a job of Sia's simulator nothing, and one of
// Pollux's a restart; to be without GPUs for a while costs both.
func TestMoves(t *testing.T) {
	for _, q := range []*quirks{&ofSia, &ofPollux} {
		task := &task{app: app(t), quirks: q, restarts: -1, end: -1}
		task.move(unnamed, []int{2})
		task.move(unnamed, []int{2})
		want := map[bool]int{true: 0, false: 1}[q.sameFree]
		if task.restarts != want {
			t.Errorf("%d restarts, want %d", task.restarts, want)
		}
		task.move("", nil)
		if task.move(unnamed, []int{2}); task.restarts != want+1 {
			t.Errorf("%d restarts after a break, want %d", task.restarts, want+1)
		}
	}
}

// Jobs that are spread over nodes slow each other down where they meet, those on one
// node nobody.
func TestInterferes(t *testing.T) {
	m := machine{slows: 0.5}
	a, b := &task{on: unnamed, nodes: []int{0, 1}, placement: []int{1, 1}}, &task{on: unnamed, nodes: []int{1, 2}, placement: []int{1, 1}}
	c, d := &task{on: unnamed, nodes: []int{1, 1}, placement: []int{2}}, &task{on: "rtx", nodes: []int{0, 1}, placement: []int{1, 1}}
	m.interfere([]*task{a, b, c, d})
	if a.slowed != 0.5 || b.slowed != 0.5 || c.slowed != 0 || d.slowed != 0 {
		t.Errorf("slowed by %v, %v, %v and %v", a.slowed, b.slowed, c.slowed, d.slowed)
	}
	if m.interfere([]*task{a, c, d}); a.slowed != 0 {
		t.Errorf("slowed by %v when the other one has gone", a.slowed)
	}
}

// A job keeps the GPUs of the type of which it has most, of two the better; of three
// the third is not looked at.
func TestOneType(t *testing.T) {
	s := search{quirks: &ofSia, nodes: []vnode{{"aws", 0}, {"aws", 1}, {"dgx-ext", 0}, {"rtx", 0}}}
	for _, c := range []struct{ on, want []int }{
		{[]int{0, 0, 1}, []int{0, 0, 1}}, {[]int{0, 2, 2}, []int{2, 2}}, {[]int{0, 2}, []int{2}}, {[]int{0, 0, 2}, []int{0, 0}},
		{[]int{0, 3}, []int{3}}, {[]int{0, 2, 3}, []int{2}}, {[]int{0, 3, 2}, []int{3}},
	} {
		if got := s.ofOneType(slices.Clone(c.on)); !slices.Equal(got, c.want) {
			t.Errorf("of %v it keeps %v, want %v", c.on, got, c.want)
		}
	}
}

// A whole run of a small workload: everybody ends, in whole seconds; the same seed ends
// the same.
func TestRun(t *testing.T) {
	longtest.Skip(t)
	dir := t.TempDir()
	write(t, dir, "bert", "")
	write(t, dir, "ncf", "")
	text := "progress,iteration,metric,grad_sqr,grad_var\n"
	for i := range 10 {
		text += fmt.Sprintf("%d,1,1,1,1\n", 10*(i+1))
	}
	for _, b := range []string{"20", "80"} {
		if err := os.WriteFile(filepath.Join(dir, "ncf", "validation-"+b+".csv"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	trace := filepath.Join(dir, "w.csv")
	if err := os.WriteFile(trace, []byte("name,time,application,num_replicas,batch_size\na,5,bert,1,1\nb,70,bert,1,1\nc,60,ncf,1,1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	var out []string
	for range 2 {
		r, err := Run(t.Context(), trace, "aws=2x4", "osdi-pollux-i60", Options{Profiles: dir, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		text := ""
		for i := range r.Rows {
			if row := &r.Rows[i]; row.End <= row.Submit+30 || row.End != math.Trunc(row.End) {
				t.Errorf("job %s ends at %v", row.Key, row.End)
			}
			text += string(r.Append(nil, &r.Rows[i])) + "\n"
		}
		out = append(out, text)
	}
	if out[0] != out[1] || strings.Count(out[0], "\n") != 3 || !strings.HasPrefix(out[0], "a,5,None,") {
		t.Errorf("got\n%s\nand\n%s", out[0], out[1])
	}
}

// A job whose last epoch rounds to no time ends at the moment at which a round begins:
// nobody else is played on twice for that, and ends when it does with one that takes a
// second.
func TestEndsAsRoundBegins(t *testing.T) {
	other := map[float64]float64{}
	for _, last := range []float64{0.1, 1} {
		dir := t.TempDir()
		write(t, dir, "bert", "")
		write(t, dir, "deepspeech2", "")
		text := "progress,iteration,metric,grad_sqr,grad_var\n" + strings.Repeat("0.1,1,1,1,1\n", 79) + fmt.Sprintf("%g,1,1,1,1\n", last)
		for _, b := range []string{"20", "80"} {
			if err := os.WriteFile(filepath.Join(dir, "deepspeech2", "validation-"+b+".csv"), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		trace := filepath.Join(dir, "w.csv")
		if err := os.WriteFile(trace, []byte("name,time,application\na,5,deepspeech2\nb,5,bert\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		r, err := Run(t.Context(), trace, "aws=2x1", "osdi-pollux-i30", Options{Profiles: dir})
		if err != nil {
			t.Fatal(err)
		}
		if want := 60 + math.Round(last-0.1); r.Rows[0].End != want {
			t.Errorf("the first one ends at %v, want %v", r.Rows[0].End, want)
		}
		other[r.Rows[1].End] = last
	}
	if len(other) != 1 {
		t.Errorf("the other one ends at %v", other)
	}
}

// Errors name the file and the line.
func TestErrors(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "bert", "")
	trace := func(text string) string {
		path := filepath.Join(dir, "w.csv")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct{ trace, cluster, policy, want string }{
		{"name,time,application\na,1,bert\n", "aws=2", "osdi-pollux-i60", "type=NODESxGPUS"},
		{"name,time,application\na,1,bert\n", "aws=2x4;rtx=1x6", "osdi-pollux-i60", "no multiple"},
		{"name,time,application\na,1,bert\n", "aws=2x4", "pollux", "policy of sia"},
		{"name,time,application\na,1,vgg\n", "aws=2x4", "osdi-pollux-i60", "vgg"},
		{"name,time,application\na,x,bert\n", "aws=2x4", "osdi-pollux-i60", "w.csv"},
		{"name,time\na,1\n", "aws=2x4", "osdi-pollux-i60", "application"},
		{"name,time,application\na,1,bert\n", "rtx=2x4", "osdi-pollux-i60", "placements-rtx.csv"},
		{"name,time,application\na,-1,bert\n", "aws=2x4", "osdi-pollux-i60", "w.csv"},
	} {
		_, err := Run(t.Context(), trace(c.trace), c.cluster, c.policy, Options{Profiles: dir})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s on %s under %s: error %v, want one with %q", c.trace, c.cluster, c.policy, err, c.want)
		}
	}
	for name, text := range map[string]string{
		"placements.csv":    "placement,local_bsz,step_time,sync_time\n1,10,0,0\n",
		"validation-20.csv": "progress,iteration,metric,grad_sqr,grad_var\n5,1,1,1,1\n4,1,1,1,1\n",
		"scalability.csv":   "num_nodes,num_replicas,local_bsz,step_time,sync_time\n2,0,1,1,0\n",
		"validation-0.csv":  "progress,iteration,metric,grad_sqr,grad_var\n5,1,1,1,1\n6,1,1,1,1\n",
	} {
		dir := t.TempDir()
		write(t, dir, "bert", "")
		if err := os.WriteFile(filepath.Join(dir, "bert", name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := readApplication(dir, "bert", []string{unnamed}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
