package gen_test

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/gen"
)

// TestDiurnal: the load is lowest before dawn and highest twelve hours later, within its bounds,
// and is read again as loans.
func TestDiurnal(t *testing.T) {
	d := gen.NewDiurnal()
	d.Span, d.Seed = 10*24*time.Hour, 3
	var text bytes.Buffer
	if err := d.Write(&text); err != nil {
		t.Fatal(err)
	}
	loans, err := trace.ReadLoans(&text, "load.csv", trace.LoanOptions{Headroom: 0.02, Notice: time.Minute})
	if err != nil || len(loans) != 10*24*12 {
		t.Fatalf("%d loans, %v", len(loans), err)
	}
	var byHour [24]float64
	for _, l := range loans {
		byHour[int(l.At.Hours())%24] += l.Part / 120
		if l.Part < 0.03-1e-9 || l.Part > 0.56+1e-9 || l.Notice != time.Minute || l.Lender != "inference" {
			t.Fatalf("a loan of %+v", l)
		}
	}
	if math.Abs(byHour[4]-0.55) > 0.03 || math.Abs(byHour[17]-0.05) > 0.03 {
		t.Errorf("at night %.2f is lent, in the evening %.2f", byHour[4], byHour[17])
	}
	d.Low = 2
	if err := d.Write(&text); err == nil {
		t.Error("a load of 2 was written")
	}
}

// TestIdle: jobs take the lowest idle nodes when they start; what is left is lent.
func TestIdle(t *testing.T) {
	log := "job,submit,gpus,duration,wait\na,0,2,100,10\nb,50,1,100,0\nc,120,1,10,30\n"
	src, err := trace.NewReader(strings.NewReader(log), "log.csv", trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := (&gen.Idle{Nodes: 3, GPUs: 1, Least: 5 * time.Second}).Write(&out, src); err != nil {
		t.Fatal(err)
	}
	// Since the first start a has n0 and n1 for 100 s, b has n2 from 40 to 140, c has n0 from 140 to 150.
	want := "node,from,to\nn2,0,40\nn0,100,140\nn1,100,150\nn2,140,150\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
	src, err = trace.NewReader(strings.NewReader("job,submit,gpus,duration\na,0,2,100\n"), "log.csv", trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := (&gen.Idle{Nodes: 3, GPUs: 1}).Write(&out, src); err == nil || !strings.Contains(err.Error(), "job a") {
		t.Errorf("%v for a log without starts", err)
	}
}
