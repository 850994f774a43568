package trace_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/trace"
)

// TestReadLoans: the three layouts, in order of time.
func TestReadLoans(t *testing.T) {
	const s = time.Second
	opt := trace.LoanOptions{Notice: 60 * s, Headroom: 0.1}
	for text, want := range map[string][]trace.Loan{
		"node,from,to\nb,100,\na,0,1m30s\n": {
			{Node: "a", Lent: true}, {At: 30 * s, Node: "a", Notice: 60 * s}, {At: 100 * s, Node: "b", Lent: true}},
		"node,from,to,notice\na,80,90,0\nb,80,90,20\n": {
			{At: 80 * s, Node: "a", Lent: true}, {At: 80 * s, Node: "b", Lent: true}, {At: 80 * s, Node: "b", Notice: 10 * s}, {At: 90 * s, Node: "a"}},
		"lender,time,nodes\nx,10,3\n":                   {{At: 10 * s, Lender: "x", Nodes: 3, Notice: 60 * s}},
		"lender,time,load\n# night\nx,10,0.4\nx,20,1\n": {{At: 10 * s, Lender: "x", Nodes: -1, Part: 0.5, Notice: 60 * s}, {At: 20 * s, Lender: "x", Nodes: -1, Notice: 60 * s}},
	} {
		got, err := trace.ReadLoans(strings.NewReader(text), "f", opt)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q:\n%+v, %v, not\n%+v", text, got, err, want)
		}
	}
	half := trace.Loan{Nodes: -1, Part: 0.55}
	if half.Of(10) != 5 || (&trace.Loan{Nodes: 12}).Of(10) != 10 {
		t.Error("so many of ten nodes are not lent")
	}
}

// TestReadLoansErrors: errors name the line.
func TestReadLoansErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "f: no header",
		"node,to\n":                       "f: the header is none of",
		"node,from,to\na,5,6\n,1,2\n":     "f:3: no node",
		"node,from,to\na,6,5\n":           "f:2: node a: is lent from 6s to 5s",
		"node,from,to\na,x,5\n":           `f:2: from: "x" is not a moment`,
		"node,from,to,notice\na,1,5,-1\n": `f:2: notice: "-1" is not a moment`,
		"lender,time,load\nx,1,2\n":       `f:2: lender "x": "2" is not a load`,
		"lender,time,load\nx,1,NaN\n":     `f:2: lender "x": "NaN" is not a load`,
		"lender,time,nodes\nx,1,-2\n":     `f:2: lender "x": "-2" is not a number of nodes`,
		"lender,time,nodes\nx,1\n":        "f: record on line 2: wrong number of fields",
	} {
		if _, err := trace.ReadLoans(strings.NewReader(text), "f", trace.LoanOptions{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, not %s", text, err, want)
		}
	}
}
