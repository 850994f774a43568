package main

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/internal/fileio"
	"github.com/norn-scheduler/norn/internal/grid"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/policy/tokens"
	"github.com/norn-scheduler/norn/sim/serve"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/gen"
)

// requestFlags are the flags of norn sim that are of traces of requests alone.
type requestFlags struct {
	server  string
	clients int
}

func (q *requestFlags) add(f *pflag.FlagSet) {
	var names []string
	for _, s := range serve.Servers() {
		names = append(names, s.Name)
	}
	f.StringVar(&q.server, "server", names[0], "a trace of requests: the server that answers them: "+strings.Join(names, ", "))
	f.IntVar(&q.clients, "clients", 10, "a trace of requests that names no clients: number of clients to whom they are dealt in turn")
}

// ofRequests are the flags that a trace of requests knows.
var ofRequests = []string{"policy", "set", "out", "table", "quiet", "server", "clients"}

// defaultTokenPolicies are compared where none is named.
var defaultTokenPolicies = []string{"fcfs", "lcf", "vtc"}

// tokenPolicy is a policy of tokens with settings.
type tokenPolicy struct {
	name string
	cfg  tokens.Config
}

// tokenPolicies are the policies of tokens that were named. what is what an error says knows others.
func tokenPolicies(named, settings []string, what string) ([]tokenPolicy, error) {
	all, err := parsed(named, settings)
	if err != nil {
		return nil, err
	}
	var out []tokenPolicy
	for _, c := range all {
		var names []string
		for _, e := range tokens.Table() {
			if names = append(names, e.Name); e.Name == c.Policy {
				out = append(out, tokenPolicy{c.String(), e.New()})
			}
		}
		if !slices.Contains(names, c.Policy) {
			return nil, misused("--policy %s: %s knows %s%s", c.Policy, what, strings.Join(names, ", "), param.Near(c.Policy, names))
		}
		last := out[len(out)-1]
		for _, s := range c.Settings {
			if err := last.cfg.Params().Set(s.Name, s.Value); err != nil {
				return nil, misused("--policy %s: %w", c.Policy, err)
			}
		}
		if slices.ContainsFunc(out[:len(out)-1], func(p tokenPolicy) bool { return p.name == last.name }) {
			return nil, misused("policy %s is named twice", last.name)
		}
	}
	return out, nil
}

// serve replays a trace of requests.
func (f *simFlags) serve(cmd *cobra.Command, path string) error {
	server, err := serve.FindServer(f.requests.server)
	if err != nil {
		return misused("--server: %w", err)
	}
	if f.requests.clients < 1 {
		return misused("--clients %d: write a number of clients, at least 1", f.requests.clients)
	}
	named := f.policies
	if len(named) == 0 {
		named = defaultTokenPolicies
	}
	policies, err := tokenPolicies(named, f.settings, "a trace of requests")
	if err != nil {
		return err
	}
	in, err := trace.OpenRequests(path, f.requests.clients)
	if err != nil {
		return err
	}
	clients := serve.Clients(in.All)
	var results []*serve.Summary
	for _, p := range policies {
		r, err := f.serveUnder(cmd, p, &server, in.All, clients)
		if err != nil {
			return fmt.Errorf("policy %s: %w", p.name, err)
		}
		results = append(results, r)
	}
	if !f.quiet && f.format == "text" {
		dealt := ""
		if !in.Named {
			dealt = fmt.Sprintf(", dealt to them in turn (--clients %d)", len(clients))
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s of %s%s, on %s (%s)\n\n", unit.Count(len(in.All), "request"), unit.Count(len(clients), "client"), dealt, server.Name, server.About)
	}
	return writeServed(cmd.OutOrStdout(), f.format, widthOf(cmd), results)
}

// serveUnder replays a trace under one policy, and writes the files of --out.
func (f *simFlags) serveUnder(cmd *cobra.Command, p tokenPolicy, s *serve.Server, all []trace.Request, clients []string) (*serve.Summary, error) {
	made, err := p.cfg.Policy(tokens.Setup{Clients: clients, Pool: s.Pool})
	if err != nil {
		return nil, err
	}
	r, err := serve.Run(cmd.Context(), s, all, clients, made, serve.Watch{})
	if err != nil {
		return nil, err
	}
	sum := r.Summary(p.name)
	if f.to == nil {
		return sum, nil
	}
	return sum, f.to.WriteServed(p.name, r, sum)
}

// writeServed writes the table of results.
func writeServed(out io.Writer, format string, width int, all []*serve.Summary) error {
	if format == "json" {
		return writeJSON(out, all)
	}
	titles := []string{"policy", "tokens/s", "response mean", "p90", "p99", "refused", "difference mean", "max", "gap"}
	rows := make([][]string, len(all))
	for i, s := range all {
		one := func(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }
		whole := func(v float64) string { return strconv.FormatFloat(v, 'f', 0, 64) }
		seconds := func(v float64) string {
			if format == "csv" {
				return strconv.FormatFloat(v, 'f', -1, 64)
			}
			return unit.Human(time.Duration(v * 1e9).Round(10 * time.Millisecond))
		}
		rows[i] = []string{s.Policy, one(s.Throughput), seconds(s.Response.Mean), seconds(s.Response.P90), seconds(s.Response.P99), strconv.Itoa(s.Refused), whole(s.Difference.Mean), whole(s.Difference.Most), whole(s.Gap)}
	}
	switch format {
	case "csv":
		w := csv.NewWriter(out)
		if err := w.Write([]string{"policy", "tokens_per_s", "response_mean_s", "response_p90_s", "response_p99_s", "refused", "difference_mean", "difference_max", "gap"}); err != nil {
			return err
		}
		return w.WriteAll(rows)
	case "markdown":
		fmt.Fprintf(out, "| %s |\n|%s\n", strings.Join(titles, " | "), strings.Repeat(" --- |", len(titles)))
		for _, row := range rows {
			if _, err := fmt.Fprintf(out, "| %s |\n", strings.Join(row, " | ")); err != nil {
				return err
			}
		}
		return nil
	}
	t := grid.Table{Cols: columns(titles...)}
	for _, row := range rows {
		t.Add(row...)
	}
	if err := t.Write(out, width); err != nil {
		return err
	}
	_, err := fmt.Fprintln(out, "\nresponse: from the arrival of a request to its first token; difference: what clients lack of the one that is given most, in\nunits/s, as far as they ask for it; gap: largest difference of all service of two clients while requests arrive")
	return err
}

// likeRequests is what a user writes for requests to a server of a language model.
const likeRequests = "requests"

// generateRequests makes the requests of --like requests.
func generateRequests(cmd *cobra.Command, to string, named []string, span time.Duration, seed uint64) error {
	senders := gen.Overload()
	if len(named) > 0 {
		senders = nil
	}
	for _, text := range named {
		s, err := gen.ParseSender(text)
		if err != nil {
			return misused("--client: %w", err)
		}
		senders = append(senders, s)
	}
	if span == 0 {
		span = 6 * time.Minute
	}
	all, err := gen.Requests(senders, span, seed)
	if err != nil {
		return misused("--like requests: %w", err)
	}
	if to == "" {
		return trace.WriteRequests(cmd.OutOrStdout(), all)
	}
	if filepath.Ext(to) != ".csv" {
		return misused("--output %s: requests are written as .csv", to)
	}
	return fileio.CreateWhole(to, func(w io.Writer) error { return trace.WriteRequests(w, all) })
}

// listTokens lists the policies of tokens, or the parameters of one.
func listTokens(out io.Writer, args []string, asJSON bool) error {
	var all []otherPolicy
	for _, e := range tokens.Table() {
		all = append(all, otherPolicy{e.Name, e.About, e.New().Params()})
	}
	return listOthers(out, "tokens", "Sheng et al., OSDI 2024", all, args, asJSON)
}

// otherPolicy is a policy that decides about something else than jobs.
type otherPolicy struct {
	name, about string
	params      param.Set
}

// listOthers lists policies that decide about something, or the parameters of one.
func listOthers(out io.Writer, what, source string, entries []otherPolicy, args []string, asJSON bool) error {
	all := []policyJSON{}
	var names []string
	for _, e := range entries {
		names = append(names, e.name)
		if len(args) > 0 && args[0] != e.name {
			continue
		}
		p := policyJSON{Name: e.name, Title: e.about, Source: source, LivesOn: []needJSON{}, Does: []string{}, Parameters: []paramJSON{}}
		for _, s := range e.params {
			p.Parameters = append(p.Parameters, paramJSON{s.Name, s.Default, s.Unit, s.Doc})
		}
		all = append(all, p)
	}
	switch {
	case len(all) == 0:
		return misused("policy %q of %s is not known; known are: %s%s", args[0], what, strings.Join(names, ", "), param.Near(args[0], names))
	case asJSON:
		return writeJSON(out, all)
	}
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	for _, p := range all {
		fmt.Fprintf(w, "%s\t%s\n", p.Name, p.Title)
	}
	if err := w.Flush(); err != nil || len(args) == 0 {
		return err
	}
	fmt.Fprintln(w, "\nPARAMETER\tDEFAULT\tUNIT OR VALUES\tMEANING")
	for _, s := range all[0].Parameters {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", s.Name, cmp.Or(s.Default, "-"), s.Unit, s.Doc)
	}
	return w.Flush()
}
