package trace_test

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"log"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/trace"
)

func ExampleOpen() {
	r, err := trace.Open("testdata/jobs.csv", trace.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	var e trace.Entry
	for {
		err := r.Next(&e)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%v: %s of %s wants %v and runs %v\n", e.Job.Submit, e.Job.Key, e.Job.Tenant, e.Job.Demand, e.Truth.Total())
	}
	info := r.Info()
	fmt.Println(info.Jobs, "jobs in format", info.Format, "from", info.Origin)
	// Output:
	// 0s: bert of nlp wants 8 GPUs of type A100 or H100 and runs 6h0m0s
	// 5m0s: resnet of vision wants 4 GPUs and runs 1h38m50s
	// 10m0s: probe of nlp wants 0.5 GPU and runs 10m0s
	// 3 jobs in format csv from 2024-03-01 09:00:00 +0000 UTC
}

// A format of one's own is a table of columns. Setters of the package store
// what is usual; a function of one's own stores the rest.
func ExampleCSV() {
	lab := trace.CSV("lab", "log of our lab", func(*trace.Input) *trace.Table {
		return &trace.Table{
			Comma: ';',
			Columns: []trace.Column{
				trace.Col("run", trace.Key),
				trace.Col("began", trace.SubmitWall),
				trace.Col("minutes", trace.Work(time.Minute)),
				trace.Col("cards", trace.GPUs),
				trace.Opt("who", trace.User).Or("unknown"),
				trace.Col("ok", func(r *trace.Row, field []byte) error {
					switch string(field) {
					case "yes":
					case "no":
						r.Truth.Outcome = trace.Failed
					default:
						return trace.Want("yes or no")
					}
					return nil
				}),
			},
		}
	})
	lab.Clock = trace.Unix

	text := "run;began;minutes;cards;ok;who\nr1;2024-03-01 09:00:00;90;8;yes;ann\nr2;2024-03-01 09:30:00;2.5;1;no;bob\nr3;2024-03-01 09:31:00;1;1;perhaps;bob\n"
	r, err := trace.NewReader(strings.NewReader(text), "log.csv", trace.Options{Extra: []trace.Format{lab}, SkipBad: true})
	if err != nil {
		log.Fatal(err)
	}
	var e trace.Entry
	for r.Next(&e) == nil {
		fmt.Println(e.Job.Key, e.Job.User, e.Job.Submit, e.Job.Demand, e.Truth.Work, e.Truth.Outcome)
	}
	fmt.Println(r.Info().Problems)
	// Output:
	// r1 ann 0s 8 GPUs 1h30m0s passed
	// r2 bob 30m0s 1 GPU 2m30s failed
	// [log.csv, line 4, column 5 (ok): found "perhaps", expected yes or no]
}

// beats is a source of a format that is not a table: a line is a beat, and a
// job is as long as its line.
type beats struct {
	in    *trace.Input
	lines *bufio.Scanner
	at    time.Duration
}

func (b *beats) Next(e *trace.Entry) error {
	if !b.lines.Scan() {
		return cmp.Or(b.lines.Err(), io.EOF)
	}
	b.in.Row()
	d := job.GPUs(1)
	*e = trace.Entry{Job: job.Job{Submit: b.at, Demand: &d}}
	e.Truth.Work = time.Duration(len(b.lines.Bytes())) * time.Second
	b.at += time.Minute
	return nil
}

// Formats of any other kind bring a Source of their own.
func ExampleFormat() {
	morse := trace.Format{
		Name: "morse", Title: "beats of a key", Order: trace.Sorted,
		Match: func(h *trace.Head) int {
			if strings.Trim(string(h.Line(0)), "-.") != "" {
				return 0
			}
			return 1
		},
		Decode: func(in *trace.Input) (trace.Source, error) {
			return &beats{in: in, lines: bufio.NewScanner(in.Body)}, nil
		},
	}
	r, err := trace.NewReader(strings.NewReader("...\n---.\n"), "beats", trace.Options{Extra: []trace.Format{morse}})
	if err != nil {
		log.Fatal(err)
	}
	var e trace.Entry
	for r.Next(&e) == nil {
		fmt.Println(e.Job.ID, e.Job.Submit, e.Truth.Work)
	}
	// Output:
	// 0 0s 3s
	// 1 1m0s 4s
}
