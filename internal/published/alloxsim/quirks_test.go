package alloxsim

import (
	"cmp"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// play runs jobs, each "arrival queue CPU-time GPU-time", and returns for each
// "start-end" and c or g for the side, all in one line.
func play(t *testing.T, policy, clusterName string, jobs ...string) string {
	t.Helper()
	var text strings.Builder
	for i, j := range jobs {
		f := strings.Fields(j)
		n := string(rune('0' + i))
		text.WriteString("# " + n + "\n1 " + n + " 1 " + f[0] + " " + f[1] + "\nstage -1.0 32.0 1.0 " + f[2] + " 1.0 2.0 " + f[3] + " 1\n0\n")
	}
	path := filepath.Join(t.TempDir(), "jobs.txt")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := Run(t.Context(), path, clusterName, policy)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for i := range r.Rows {
		f := strings.Split(string(r.Append(nil, &r.Rows[i])), ",")
		side := "g"
		if f[7] == "true" {
			side = "c"
		}
		out = append(out, f[3]+"-"+f[4]+side)
	}
	return strings.Join(out, " ")
}

func TestQuirks(t *testing.T) {
	const one = "GPU=1;CPU=32;mem=64GiB"
	for _, c := range []struct {
		what, policy, cluster string
		jobs                  []string
		want                  string
	}{
		{"of the runs that measure a job every other one is passed over", "SJF", one, []string{"0 a 50 10"}, "3-13g"},
		{"they last a second at least, 1 % and 2 % of the time otherwise", "SJF", one, []string{"0 a 900 200"}, "27-227g"},
		{"jobs of one moment are ready together", "SJF", "GPU=9;CPU=288;mem=640GiB", []string{"0 a 50 10", "0 b 5000 1000"}, "101-111g 101-1101g"},
		{"differences below a second are ties", "AlloXPlus", one, []string{"0 a 30 10.9", "0 b 20 10"}, "5-16g 5-25c"},
		{"without that quirk", "SJF", one, []string{"0 a 30 10.9", "0 b 20 10"}, "5-35c 5-15g"},
		{"nobody goes ahead of a user without room", "DRF", one, []string{"0 a 90 10", "0 b 80 12", "0 c 5 20"}, "8-18g 18-30g 18-23c"},
		{"who runs is started anew at every event", "SRPT", one, []string{"0 a 1000 100", "80 b 900 40"}, "107-130g 132-172g"},
		{"the times that were told decide, not what is left", "SRPT", one, []string{"0 a 1000 100", "1 b 900 90"}, "147-211g 57-147g"},
	} {
		if got := play(t, c.policy, c.cluster, c.jobs...); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
}

// At 100,000 s the simulator stops, and what runs then is not told.
func TestStops(t *testing.T) {
	if got := play(t, "SJF", "GPU=1;CPU=32;mem=64GiB", "0 a 50 10", "10 b 900000 900000", "99999 c 50 40", "100005 d 50 10"); got != "3-13g" {
		t.Errorf("%q, want the first job alone", got)
	}
}

// The sort of Java is a sort, and stable, when the comparison is an order.
func TestJavaSort(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		a := make([][2]int, r.IntN(700))
		run := 1 + r.IntN(40)
		for i := range a {
			a[i] = [2]int{(i%run)*(1-2*r.IntN(2)) + r.IntN(1+r.IntN(50)), i}
		}
		want := slices.Clone(a)
		order := func(x, y [2]int) int { return cmp.Compare(x[0], y[0]) }
		slices.SortStableFunc(want, order)
		if err := javaSort(a, order); err != nil || !slices.Equal(a, want) {
			t.Fatalf("%d numbers: %v\n%v\n%v", len(a), err, a, want)
		}
	}
}

func TestReadErrors(t *testing.T) {
	const good = "# 0\n1 0 1 0 q\nstage -1.0 32.0 1.0 9 1.0 2.0 8 1 0.1 0.1\n0\n"
	for _, c := range []struct{ text, want string }{
		{"# 0\n1 0 1 0 q\n", "line 1: the file ends in the middle of a job"},
		{strings.Replace(good, "#", "", 1), "line 1: # and the name"},
		{strings.Replace(good, "1 0 1 0 q", "2 0 1 0 q", 1), "line 2: stages (1)"},
		{strings.Replace(good, "1 0 1 0 q", "1 0 1 0.5 q", 1), `line 2: arrives at "0.5"`},
		{strings.Replace(good, "32.0", "16", 1), "line 3: asks for 1 tasks of 16 CPUs"},
		{strings.Replace(good, " 9 ", " x ", 1), `line 3: field 5 is "x"`},
		{strings.Replace(good, " 9 ", " 0 ", 1), "line 3: field 5, 0, is out of range"},
		{strings.Replace(good, "\n0\n", "\n1\n", 1), "line 4: 0 should be here"},
		{strings.Replace(good, "1 0 q", "1 5 q", 1) + good, "line 6: arrives before"},
	} {
		path := filepath.Join(t.TempDir(), "jobs.txt")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readTrace(path); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want one that says %s", err, c.want)
		}
	}
	for _, name := range []string{"", "GPU=0;CPU=32;mem=1GiB", "GPU=1;CPU=33;mem=1GiB", "GPU=1;CPU=32", "CPU=32;GPU=1;mem=1GiB", "earth"} {
		if _, err := readMachine(name); err == nil || !strings.Contains(err.Error(), "GPU=20") {
			t.Errorf("%q: error %v", name, err)
		}
	}
}

// Jobs that have waited for 500 s go first; else differences below a second are ties,
// which is no order: 10 is as good as 10.9, and 10.9 as 11.8, but 10 is not 11.8.
func TestNearlyShorter(t *testing.T) {
	for _, c := range []struct {
		a, b option
		want int
	}{
		{option{time: 900, late: true}, option{time: 10}, -1},
		{option{time: 10}, option{time: 900, late: true}, 1},
		{option{time: 10, late: true}, option{time: 900, late: true}, -1},
		{option{time: 10}, option{time: 10.9}, 0},
		{option{time: 10.9}, option{time: 11.8}, 0},
		{option{time: 10}, option{time: 11.8}, -1},
	} {
		if got := nearlyShorter(&c.a, &c.b); got != c.want {
			t.Errorf("%+v before %+v: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

// Order goes by the times with the errors of their users; what runs takes the true ones.
func TestTold(t *testing.T) {
	f, _, err := readJob([]string{"# 0", "1 0 1 0 q", "stage -1.0 32.0 1.0 100 1.0 2.0 40 1 -0.5 0.25", "0"})
	if err != nil || f.time != [sides]float64{100, 40} || f.told != [sides]float64{50, 50} {
		t.Errorf("%+v, %v", f, err)
	}
	s := newScheduler(Policy{}, machine{units: [sides]int{1, 1}, memory: 64}, []facts{f}, nil)
	s.enqueue(&s.tasks[0])
	if o := s.options(); len(o) != 2 || o[onCPUs].time != 50 || o[onGPU].time != 50 {
		t.Errorf("%d options", len(o))
	}
	if !s.start(&s.tasks[0], onCPUs) || s.tasks[0].ends != 100 || s.start(&s.tasks[1], onCPUs) {
		t.Errorf("ends at %d", s.tasks[0].ends)
	}
}
