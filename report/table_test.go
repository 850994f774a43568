package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// result makes a result with the figures that a table shows.
func result(jct, wait float64, preemptions int) *Result {
	r := &Result{}
	r.JCT, r.Wait = describe(seconds(jct, 2*jct, 4*jct)), describe(seconds(wait, wait, 3*wait))
	r.Makespan, r.Utilisation, r.Preemptions = time.Duration(jct)*10*time.Second, 0.5, preemptions
	r.Fairness = Fairness{Rated: 3, Mean: jct / 1000, Worst: jct / 100, Unfair: 0.25}
	r.GPU.Lost, r.GPU.Failed = jct, jct/2
	return r
}

func sample() *Table {
	return Compare([]Named{{"fifo", result(3000, 600, 0)}, {"tiresias knob=2", result(1500, 900, 37)}, {"nothing", &Result{}}})
}

func TestTableText(t *testing.T) {
	var b strings.Builder
	if err := sample().WriteText(&b, TextOptions{}); err != nil {
		t.Fatal(err)
	}
	want := "" +
		"policy           mean JCT  JCT p50  JCT p90  JCT p99  mean wait  makespan   util  preempt  lost GPUh   rho  worst rho\n" +
		"fifo                1h57m    1h40m       3h    3h18m     16m40s     8h20m  50.0%        0       1500  3.00      30.00\n" +
		"tiresias knob=2    58m20s      50m    1h30m    1h39m        25m     4h10m  50.0%       37      750.0  1.50      15.00\n" +
		"nothing                 -        -        -        -          -         -   0.0%        0       0.00     -          -\n"
	got := b.String()
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	lines := strings.Split(strings.TrimSuffix(got, "\n"), "\n")
	for _, line := range lines {
		if n := utf8.RuneCountInString(line); n > 120 || n != utf8.RuneCountInString(lines[0]) {
			t.Errorf("a line has %d columns, the first one %d: %q", n, utf8.RuneCountInString(lines[0]), line)
		}
	}
}

func TestTableMarks(t *testing.T) {
	var b strings.Builder
	if err := sample().WriteText(&b, TextOptions{Width: 80, Color: true}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"  " + markOn + "58m20s" + markOff, markOn + "16m40s" + markOff} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q does not mark %q", b.String(), want)
		}
	}
	if strings.Contains(b.String(), markOn+"25.0%") || strings.Contains(b.String(), markOn+"-") {
		t.Errorf("%q marks what is the same everywhere", b.String())
	}
	b.Reset()
	if err := sample().WriteText(&b, TextOptions{Width: 80}); err != nil || strings.Contains(b.String(), "\x1b") {
		t.Errorf("%q is marked without being asked for: %v", b.String(), err)
	}
	b.Reset()
	one := Compare([]Named{{"only", result(10, 1, 0)}})
	if err := one.WriteText(&b, TextOptions{Color: true}); err != nil || strings.Contains(b.String(), "\x1b") {
		t.Errorf("%q marks the best of one: %v", b.String(), err)
	}
}

// TestTableFits checks that tables keep to their width, whatever the figures
// and names, and are aligned.
func TestTableFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var runs []Named
		for range rapid.IntRange(1, 5).Draw(t, "runs") {
			scale := rapid.Float64Range(0, 1e8).Draw(t, "scale")
			runs = append(runs, Named{rapid.String().Draw(t, "name"), result(scale, scale/3, rapid.IntRange(0, 1e9).Draw(t, "preemptions"))})
		}
		width := rapid.SampledFrom([]int{0, 80, 100, 120, 200}).Draw(t, "width")
		var b strings.Builder
		if err := Compare(runs).WriteText(&b, TextOptions{Width: width}); err != nil {
			t.Fatal(err)
		}
		if width == 0 {
			width = 120
		}
		lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
		if len(lines) != len(runs)+1 {
			t.Fatalf("%d lines for %d runs", len(lines), len(runs))
		}
		for _, line := range lines {
			if n := utf8.RuneCountInString(line); n > width || n != utf8.RuneCountInString(lines[0]) {
				t.Fatalf("%d columns of %d: %q", n, width, line)
			}
		}
		if !strings.Contains(lines[0], "mean JCT") || !strings.Contains(lines[0], "mean wait") || !strings.Contains(lines[0], "makespan") {
			t.Fatalf("%d columns show no more than %q", width, lines[0])
		}
	})
}

// TestTableLeft checks that jobs that are in no mean are shown where space is
// short, and that a name is cut only there.
func TestTableLeft(t *testing.T) {
	const long = "tiresias(limits=3600,36000,promote=2)"
	some := result(100, 50, 0)
	some.Jobs.Waiting = 7
	for _, test := range []struct {
		width      int
		r          *Result
		left, name bool
	}{
		{80, some, true, false}, {80, result(100, 50, 0), false, false}, {1000, some, true, true},
	} {
		var b strings.Builder
		if err := Compare([]Named{{long, test.r}}).WriteText(&b, TextOptions{Width: test.width}); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(b.String(), "left") != test.left || strings.Contains(b.String(), long) != test.name {
			t.Errorf("%d columns:\n%s", test.width, b.String())
		}
	}
}

func TestTableMarkdown(t *testing.T) {
	var b strings.Builder
	table := Compare([]Named{{"a|b *c*\n<script>", result(3000, 600, 0)}, {"d", result(1500, 900, 3)}})
	if err := table.WriteMarkdown(&b); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(b.String(), "\n")
	if len(lines) != 5 || !strings.HasPrefix(lines[2], `| a\|b \*c\* \<script\> | 1h57m |`) || !strings.Contains(lines[3], "| **58m20s** |") {
		t.Errorf("%s", b.String())
	}
	for _, line := range lines[:4] {
		if n := strings.Count(strings.ReplaceAll(line, `\|`, ""), "|"); n != len(columns())-3 { // no job has a deadline, no node sleeps
			t.Errorf("%d bars in %q", n, line)
		}
	}
}

// TestTableFiles reads the table again from CSV and JSON.
func TestTableFiles(t *testing.T) {
	var c, j bytes.Buffer
	if err := sample().WriteCSV(&c); err != nil {
		t.Fatal(err)
	}
	if err := sample().WriteJSON(&j); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&c).ReadAll()
	if err != nil || len(rows) != 4 {
		t.Fatalf("%v, %v", rows, err)
	}
	var objects []map[string]any
	if err := json.Unmarshal(j.Bytes(), &objects); err != nil || len(objects) != 3 {
		t.Fatalf("%v, %v", objects, err)
	}
	header := "policy,jct_mean_s,jct_median_s,jct_p90_s,jct_p99_s,wait_mean_s,wait_p99_s,makespan_s,gpu_utilisation,preemptions,gpu_hours_lost_to_transitions,rho_mean,rho_worst,rho_above_1_share,jobs_left,deadlines_met_share,energy_kwh,nodes_asleep_mean,wakes_per_day,jobs_delayed_by_wakes,estimates,lacks"
	if got := strings.Join(rows[0], ","); got != header {
		t.Errorf("%s", got)
	}
	if rows[1][1] != "7000" || rows[2][9] != "37" || rows[3][1] != "" || objects[0]["jct_mean_s"] != 7000.0 || objects[2]["jct_mean_s"] != nil {
		t.Errorf("%q %v", rows, objects)
	}
	if len(objects[0]) != len(rows[0]) {
		t.Errorf("%d fields in JSON, %d in CSV", len(objects[0]), len(rows[0]))
	}
}
