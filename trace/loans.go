package trace

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
)

// Loan is a change of what the owner of borrowed nodes lends. A node belongs to a lender by its
// label (cluster.LenderLabel). Nodes that no loan is about are there all the time.
type Loan struct {
	At     time.Duration
	Node   string        // this node is lent, or taken back; empty: the lender says how many
	Lender string        // where Node is empty
	Lent   bool          // of Node
	Nodes  int           // of the lender that are lent from now on, -1: Part says it
	Part   float64       // of its nodes that are lent from now on, rounded down
	Notice time.Duration // from being told to the moment at which nodes are taken back
}

// LoanOptions is what a file of loans does not tell.
type LoanOptions struct {
	Notice   time.Duration // where no column tells it
	Headroom float64       // part of its nodes that a lender keeps above its load, 0 to 1
}

// DefaultHeadroom is what Lyra's inference cluster keeps (EuroSys 2023).
const DefaultHeadroom = 0.02

// ReadLoans reads what owners lend, as CSV with one of three headers:
//
//	node,from,to[,notice]   node is lent from a moment to another
//	lender,time,nodes       so many nodes of the lender are lent from then on
//	lender,time,load        the lender itself uses this part of its nodes, 0 to 1
//
// Moments are in seconds or as 1h30m; to may be empty: for ever. The result is in order of
// time. name is for errors, which tell the line.
func ReadLoans(r io.Reader, name string, opt LoanOptions) ([]Loan, error) {
	in := csv.NewReader(r)
	in.Comment, in.TrimLeadingSpace, in.ReuseRecord = '#', true, true
	header, err := in.Read()
	if err != nil {
		return nil, fmt.Errorf("%s: no header: %w", name, err)
	}
	var row func(fields []string) ([]Loan, error)
	switch strings.ToLower(strings.Join(header, ",")) {
	case "node,from,to", "node,from,to,notice":
		row = opt.stay
	case "lender,time,nodes":
		row = opt.count
	case "lender,time,load":
		row = opt.load
	default:
		return nil, fmt.Errorf("%s: the header is none of node,from,to[,notice]; lender,time,nodes; lender,time,load", name)
	}
	var all []Loan
	for {
		fields, err := in.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		some, err := row(fields)
		if err != nil {
			line, _ := in.FieldPos(0)
			return nil, fmt.Errorf("%s:%d: %w", name, line, err)
		}
		all = append(all, some...)
	}
	slices.SortStableFunc(all, func(a, b Loan) int { return int(max(-1, min(1, a.At-b.At))) })
	return all, nil
}

// stay reads a node that is lent for some time.
func (o *LoanOptions) stay(fields []string) ([]Loan, error) {
	from, err := instant("from", fields[1])
	if err != nil {
		return nil, err
	}
	lent := Loan{At: from, Node: fields[0], Lent: true}
	if lent.Node == "" {
		return nil, errors.New("no node")
	}
	if fields[2] == "" {
		return []Loan{lent}, nil
	}
	to, err := instant("to", fields[2])
	if err != nil {
		return nil, err
	}
	if to <= from {
		return nil, fmt.Errorf("node %s: is lent from %s to %s", lent.Node, unit.Human(from), unit.Human(to))
	}
	notice := o.Notice
	if len(fields) > 3 && fields[3] != "" {
		if notice, err = instant("notice", fields[3]); err != nil {
			return nil, err
		}
	}
	notice = min(notice, to-from)
	return []Loan{lent, {At: to - notice, Node: lent.Node, Notice: notice}}, nil
}

// count reads how many nodes are lent.
func (o *LoanOptions) count(fields []string) ([]Loan, error) {
	at, err := instant("time", fields[1])
	if err != nil {
		return nil, err
	}
	n, err := strconv.ParseUint(fields[2], 10, 24)
	if err != nil || fields[0] == "" {
		return nil, fmt.Errorf("lender %q: %q is not a number of nodes", fields[0], fields[2])
	}
	return []Loan{{At: at, Lender: fields[0], Nodes: int(n), Notice: o.Notice}}, nil
}

// load reads what a lender uses itself.
func (o *LoanOptions) load(fields []string) ([]Loan, error) {
	at, err := instant("time", fields[1])
	if err != nil {
		return nil, err
	}
	used, err := strconv.ParseFloat(fields[2], 64)
	if err != nil || !(used >= 0 && used <= 1) || fields[0] == "" {
		return nil, fmt.Errorf("lender %q: %q is not a load from 0 to 1", fields[0], fields[2])
	}
	return []Loan{{At: at, Lender: fields[0], Nodes: -1, Part: max(0, 1-used-o.Headroom), Notice: o.Notice}}, nil
}

// Of is how many of so many nodes are lent.
func (l *Loan) Of(nodes int) int {
	if l.Nodes >= 0 {
		return min(l.Nodes, nodes)
	}
	return int(math.Floor(l.Part*float64(nodes) + 1e-9))
}

func instant(what, text string) (time.Duration, error) {
	d, err := unit.ParseSeconds(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%s: %q is not a moment (write seconds, or 90s, 1h30m, 2d)", what, text)
	}
	return d, nil
}
