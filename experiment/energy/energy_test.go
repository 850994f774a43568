package energy_test

import (
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/experiment/energy"
	"github.com/norn-scheduler/norn/internal/shared"
)

// near fails unless two numbers are as good as equal.
func near(t *testing.T, what string, have, want, within float64) {
	t.Helper()
	if math.Abs(have-want) > within {
		t.Errorf("%s: %v, not %v", what, have, want)
	}
}

// paper is the model of acceptance 1 of the specification: 10 ms and 0.6 ms for each sample, 13.2 ms to exchange
// gradients on four GPUs of a node.
var paper = energy.Fit{Launch: 0.01, Sample: 0.0006, Near: 0.0132 * 4 / 3, Idle: 60, Busy: 240, Starts: true}

// TestExample is acceptance 1 and 2, which leave out what is beside GPUs.
func TestExample(t *testing.T) {
	w, m := energy.Work{Samples: 50_000, Epochs: 1, Batch: 128}, energy.Machine{GPUs: 8}
	four, one := paper.Of(w, 4, m), paper.Of(w, 1, m)
	near(t, "step", four.Step, 0.1, 1e-12)
	near(t, "epoch", four.Time, 9.8, 1e-9)
	near(t, "use", four.Use, 0.868, 1e-12)
	near(t, "power", four.Watts, 268.32, 1e-9)
	near(t, "energy in J", four.KWh*3.6e6, 10518.1, 0.1)
	near(t, "epoch on one", one.Time, 33.94, 0.005)
	near(t, "speedup", four.Speedup, 3.463, 0.0005)
	near(t, "efficiency", four.Efficiency, 0.866, 0.0005)
	idle := energy.Fit{Idle: 60}
	o := idle.Of(energy.Work{Samples: 1, Epochs: 1, Batch: 1, Startup: 3600}, 8, energy.Machine{GPUs: 8, Beside: 500, PUE: 1.2})
	near(t, "acceptance 3: an idle node for an hour", o.KWh, 1.176, 1e-9)
}

// TestMonotone is acceptance 4: the longer the exchange, the lower use and power and the longer the time;
// energy is least on one GPU where nothing stands beside it.
func TestMonotone(t *testing.T) {
	w, m := energy.Work{Samples: 51_200, Epochs: 1, Batch: 128}, energy.Machine{GPUs: 8}
	slower := paper
	slower.Near *= 2
	a, b := paper.Of(w, 4, m), slower.Of(w, 4, m)
	if !(b.Use < a.Use && b.Watts < a.Watts && b.Time > a.Time) {
		t.Errorf("%+v and %+v", a, b)
	}
	var all []energy.Outlook
	for _, n := range []int{1, 2, 4, 8} {
		all = append(all, paper.Of(w, n, m))
	}
	if o, ok := energy.Least(all, math.Inf(1)); !ok || o.GPUs != 1 {
		t.Errorf("least energy on %d GPUs", o.GPUs)
	}
	if o, ok := energy.Least(all, all[2].Time); !ok || o.GPUs != 4 {
		t.Errorf("in time with least energy on %d GPUs", o.GPUs)
	}
	if o, ok := energy.Fastest(all, all[1].Power); !ok || o.GPUs != 2 {
		t.Errorf("fastest below a power on %d GPUs", o.GPUs)
	}
	if _, ok := energy.Least(all, 0.1); ok {
		t.Error("done in no time")
	}
}

// measured are samples of the model, with an error of up to noise, by the plan of the specification and between
// nodes.
func measured(f energy.Fit, noise float64, rng *rand.Rand) (all []energy.Sample) {
	off := func() float64 { return 1 + noise*(2*rng.Float64()-1) }
	for _, at := range [][3]int{{1, 1, 8}, {1, 1, 32}, {1, 1, 128}, {2, 1, 32}, {4, 1, 32}, {8, 2, 32}, {16, 4, 32}, {16, 2, 64}} {
		all = append(all, energy.Sample{
			Model: "m", GPU: "V100", GPUs: at[0], Nodes: at[1], Batch: at[2],
			Step: f.Step(at[0], at[1], at[2]) * off(), Watts: f.Watts(at[0], at[1], at[2]) * off(),
		})
	}
	return all
}

// TestFit is acceptance 5: without noise the coefficients come back, with 5 % the steps are within 6 %.
func TestFit(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	want := energy.Fit{Launch: 0.01, Sample: 0.0006, Near: 0.02, Far: 0.05, Hop: 0.001, Idle: 55, Busy: 220}
	have, err := energy.New(measured(want, 0, rng))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range [][2]float64{{have.Launch, want.Launch}, {have.Sample, want.Sample}, {have.Near, want.Near}, {have.Far, want.Far}, {have.Hop, want.Hop}, {have.Idle, want.Idle}, {have.Busy, want.Busy}} {
		near(t, "a coefficient", c[0]/c[1], 1, 1e-6)
	}
	for range 50 {
		f, err := energy.New(measured(want, 0.05, rng))
		if err != nil {
			t.Fatal(err)
		}
		if step, _, joules := f.Errors(measured(want, 0, rng)); step > 0.06 || joules > 0.1 {
			t.Errorf("steps are %v off, energy %v", step, joules)
		}
	}
	f, err := energy.New([]energy.Sample{{Model: "m", GPU: "T4", GPUs: 1, Nodes: 1, Batch: 1, Step: 1}, {Model: "m", GPU: "T4", GPUs: 1, Nodes: 1, Batch: 3, Step: 2}})
	if err != nil || !f.Told || f.Watts(1, 1, 2) != 70 {
		t.Errorf("without power %+v, %v", f, err)
	}
	if _, err := energy.New([]energy.Sample{{Model: "m", GPU: "T4", GPUs: 1, Nodes: 1, Batch: 1, Step: 1}}); err == nil {
		t.Error("one measurement is enough")
	}
}

// TestZeus holds the fit of every other batch size against the others, of six models on four GPU types: the
// target of the specification is 10 % for steps and for energy.
func TestZeus(t *testing.T) {
	n, step, watts, joules := 0.0, 0.0, 0.0, 0.0
	for _, gpu := range []string{"v100", "a40", "p100", "rtx6000"} {
		file, err := os.Open(shared.Path(t, "data/zeus/summary_power_"+gpu+".csv"))
		if err != nil {
			t.Fatal(err)
		}
		samples, err := energy.Read(file, gpu)
		file.Close()
		if err != nil {
			t.Fatal(err)
		}
		for _, of := range energy.ByModel(samples) {
			some, held := energy.Halves(of)
			f, err := energy.New(some)
			if err != nil {
				t.Fatal(err)
			}
			s, w, j := f.Errors(held)
			n, step, watts, joules = n+1, step+s, watts+w, joules+j
		}
	}
	if n != 25 || step/n > 0.09 || watts/n > 0.07 || joules/n > 0.08 {
		t.Errorf("%v models: steps %.3f, power %.3f, energy %.3f off", n, step/n, watts/n, joules/n)
	}
}

// TestRead: what is not told is one GPU, and errors name the line.
func TestRead(t *testing.T) {
	all, err := energy.Read(strings.NewReader("model,batch,step_s,gpus,watts\na,32,0.5,,\na,64,0.75,2,210\n"), "A100")
	if want := (energy.Sample{Model: "a", GPU: "A100", GPUs: 2, Nodes: 1, Batch: 64, Step: 0.75, Watts: 210}); err != nil || len(all) != 2 || all[1] != want || all[0].GPUs != 1 {
		t.Errorf("%+v, %v", all, err)
	}
	for text, want := range map[string]string{
		"": "no header", "model,batch\n": "no column step_s", "model,batch,step_s\n": "no measurements",
		"model,batch,step_s\na,32,soon\n": `line 2: step_s: "soon" is not a number`, "model,batch,step_s\na,32,1\na,0,1\n": "line 3",
		"model,batch,step_s,gpus,nodes\na,32,1,1,2\n": "1 GPUs on 2 nodes",
	} {
		if _, err := energy.Read(strings.NewReader(text), "A100"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, not %q", text, err, want)
		}
	}
}

// FuzzRead reads anything as measurements: nothing panics, and what is read can be fitted or is refused.
func FuzzRead(f *testing.F) {
	f.Add("model,batch,step_s,gpus,nodes,watts\na,32,0.5,1,1,200\na,64,0.75,8,2,210\n")
	f.Add("dataset,network,batch_size,optimizer,power_limit,time_per_epoch,average_power\nc,s,8,adam,100,3,90\nc,s,16,adam,100,2,95\n")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := energy.Read(strings.NewReader(text), "V100")
		if err != nil {
			return
		}
		for _, of := range energy.ByModel(all) {
			if fit, err := energy.New(of); err == nil {
				o := fit.Of(energy.Work{Samples: 1000, Epochs: 1, Batch: 8}, 4, energy.Machine{GPUs: 2})
				if !(o.Time >= 0) || !(o.KWh >= 0) {
					t.Fatalf("%+v", o)
				}
			}
		}
	})
}
