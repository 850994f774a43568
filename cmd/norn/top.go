package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/client"
)

func (s *shell) topCommand() *cobra.Command {
	once := false
	var f format
	var pick nodePick
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch devices, running jobs and the queue on a live screen",
		Long: `Top shows the machine on a live screen: devices with their use and their jobs, running
jobs with their progress and expected end, and the queue with the reason for each wait.
Keys select a job and cancel, hold or release it, explain why it waits, or show its
output; ? lists them. If the output is not a terminal, top prints one picture.

In a cluster it shows what there is of each GPU type, and the nodes, those with trouble
first; [ and ] turn pages of them, n lists all. --node, --pool, --state and --where select
nodes, and with them the running jobs on them.`,
		Example: `  norn top
  norn top --once
  norn top --node 'a-*' --state draining,down
  norn top -o json`,
		Args: cobra.NoArgs,
	}
	cmd.RunE = s.asked(func(cmd *cobra.Command, d daemon, _ []string) error {
		q, err := pick.query()
		if err != nil {
			return err
		}
		picked := nodePicker{d, q}
		in, out := terminal(cmd)
		if once || in == nil || f.name == "json" {
			return s.topOnce(cmd, picked, f.name)
		}
		return s.topLive(cmd.Context(), picked, in, out)
	})
	cmd.Flags().BoolVar(&once, "once", false, "print one picture and end")
	cmd.Flags().StringArrayVar(&pick.names, "node", nil, "these nodes, separated by commas; * stands for any letters")
	pick.flags(cmd, s)
	complete(cmd, map[string]completer{"node": s.completeNodes})
	f.flags(cmd)
	whereFlags(cmd)
	return cmd
}

// terminal is where keys come from and pictures go to, or nil.
func terminal(cmd *cobra.Command) (in, out *os.File) {
	in, ok := cmd.InOrStdin().(*os.File)
	out, also := cmd.OutOrStdout().(*os.File)
	if !ok || !also || !term.IsTerminal(int(in.Fd())) || !term.IsTerminal(int(out.Fd())) {
		return nil, nil
	}
	return in, out
}

// onceWidth is the width of a picture that no terminal bounds.
const onceWidth = 120

func (s *shell) topOnce(cmd *cobra.Command, d nodePicker, format string) error {
	v := s.newView()
	n := ask(cmd.Context(), d)
	if n.err != nil {
		return n.err
	}
	if format == "json" {
		if n.jobs == nil {
			n.jobs = []api.Job{} // [] in JSON, not null
		}
		return writeJSON(cmd.OutOrStdout(), struct {
			Status api.Status `json:"status"`
			Node   api.Node   `json:"node"`
			Nodes  []api.Node `json:"nodes,omitempty"`
			Jobs   []api.Job  `json:"jobs"`
		}{n.status, n.node, n.nodes, n.jobs})
	}
	v.take(n)
	v.chosen = ""
	width := widthOf(cmd)
	if width == 0 {
		width = onceWidth
	}
	for _, line := range v.frame(width, 0) {
		if _, err := fmt.Fprintln(cmd.OutOrStdout(), strings.TrimRight(line.text, " ")); err != nil {
			return err
		}
	}
	return nil
}

// newView draws with the characters that the user's terminal has.
func (s *shell) newView() *topView {
	locale := s.getenv("LC_ALL") + s.getenv("LC_CTYPE") + s.getenv("LANG")
	utf := strings.Contains(strings.ToUpper(strings.ReplaceAll(locale, "-", "")), "UTF8")
	return &topView{now: s.now(), ascii: locale != "" && !utf}
}

// nodePicker is a Norn of which some nodes are looked at.
type nodePicker struct {
	daemon
	pick api.NodeQuery
}

// all tells whether that is all of them.
func (d nodePicker) all() bool {
	q := &d.pick
	return len(q.Names)+len(q.Pools)+len(q.Types)+len(q.States) == 0 && q.Where == ""
}

// ask asks Norn for all that is shown: with nodes that are picked, the jobs that wait and
// those that are there.
func ask(ctx context.Context, d nodePicker) (n topNews) {
	if n.status, n.err = d.Status(ctx); n.err != nil {
		return n
	}
	if n.status.Nodes == 0 && !d.all() {
		n.err = misused("nodes can be selected in a cluster; this norn shares out one machine")
		return n
	}
	if n.node, n.nodes, n.err = sharedOut(ctx, d, n.status, d.pick); n.err != nil {
		return n
	}
	if n.jobs, n.err = d.Jobs(ctx, api.Query{}); n.err == nil && !d.all() {
		shown := map[string]bool{}
		for i := range n.nodes {
			shown[n.nodes[i].Name] = true
		}
		n.jobs = slices.DeleteFunc(n.jobs, func(j api.Job) bool {
			return len(j.Nodes) > 0 && !slices.ContainsFunc(j.Nodes, func(name string) bool { return shown[name] })
		})
	}
	return n
}

// topLoop keeps a view and a screen together. All changes of the view are made
// by its own goroutine; others send it functions.
type topLoop struct {
	*shell
	d      nodePicker
	view   *topView
	screen *screen
	change chan func(*topView)
	keys   chan []key
	panics chan string
	news   chan struct{} // ask Norn now
}

func (s *shell) topLive(ctx context.Context, d nodePicker, in, out *os.File) error {
	ctx, stop := signal.NotifyContext(ctx, hangups...)
	defer stop()
	t := &topLoop{
		shell: s, d: d, view: s.newView(), change: make(chan func(*topView)), keys: make(chan []key), panics: make(chan string), news: make(chan struct{}, 1),
	}
	first := ask(ctx, d)
	if first.err != nil {
		return first.err // on the screen that is there
	}
	t.view.take(first)
	screen, err := openScreen(in, out, s.getenv("NO_COLOR") == "")
	if err != nil {
		return err
	}
	defer screen.close() // in a panic, too
	t.screen = screen
	return t.loop(ctx)
}

// loop draws, and takes in keys and news, until it is told to end.
func (t *topLoop) loop(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, resizes...)
	defer signal.Stop(resized)
	t.spawn(ctx, func() { t.listen(ctx) })
	t.spawn(ctx, func() { t.follow(ctx) })
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		t.view.now = t.now()
		width, height := t.screen.size()
		if err := t.screen.draw(t.view.frame(width, height), width); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case text := <-t.panics:
			panic(text)
		case f := <-t.change:
			f(t.view)
		case pressed := <-t.keys:
			for _, k := range pressed {
				if k == keyRedraw {
					t.screen.forget()
				}
				if a := t.view.press(k, t.view.page(width, height)); a.do == topQuit {
					return nil
				} else if a.do != "" {
					t.spawn(ctx, func() { t.act(ctx, a) })
				}
			}
		case <-resized:
			t.screen.forget()
		case <-tick.C:
			if p := t.view.panel; p != nil && p.logs {
				t.spawn(ctx, func() { t.act(ctx, topAction{topLogs, p.job}) })
			}
		}
	}
}

// spawn runs something beside the loop. A panic there becomes one of the loop,
// which puts the terminal right before it ends the program.
func (t *topLoop) spawn(ctx context.Context, f func()) {
	go func() {
		defer func() {
			if v := recover(); v != nil {
				select {
				case t.panics <- fmt.Sprintf("%v\n%s", v, debug.Stack()):
				case <-ctx.Done():
				}
			}
		}()
		f()
	}()
}

// post changes the view.
func (t *topLoop) post(ctx context.Context, f func(*topView)) {
	select {
	case t.change <- f:
	case <-ctx.Done():
	}
}

// listen reads keys.
func (t *topLoop) listen(ctx context.Context) {
	buf := make([]byte, 256)
	for {
		n, err := t.screen.in.Read(buf)
		pressed := readKeys(buf[:n])
		if err != nil {
			pressed = append(pressed, keyInterrupt) // the terminal is gone
		}
		select {
		case t.keys <- pressed:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// follow asks Norn for news whenever something has happened and once a second,
// and seldom enough to take a tenth of the time of either.
func (t *topLoop) follow(ctx context.Context) {
	told := make(chan struct{}, 1)
	t.spawn(ctx, func() { events(ctx, t.d, told) })
	for {
		begun := time.Now()
		n := ask(ctx, t.d)
		if ctx.Err() != nil {
			return
		}
		t.post(ctx, func(v *topView) { v.take(n) })
		took := time.Since(begun)
		select {
		case <-ctx.Done():
			return
		case <-time.After(max(50*time.Millisecond, 10*took)):
		}
		select {
		case <-ctx.Done():
			return
		case <-told:
		case <-t.news:
		case <-time.After(time.Second):
		}
	}
}

// act carries out what a key asked for.
func (t *topLoop) act(ctx context.Context, a topAction) {
	switch a.do {
	case topWhy:
		w, err := t.d.Why(ctx, a.job)
		t.post(ctx, func(v *topView) {
			width, _ := t.screen.size()
			v.show(a.job, false, whyLines(w, v.now, width), err)
		})
	case topLogs:
		lines, err := t.tail(ctx, a.job)
		t.post(ctx, func(v *topView) { v.show(a.job, true, lines, err) })
	default:
		err := t.d.Do(ctx, a.do, a.job)
		t.post(ctx, func(v *topView) { v.done(a, err) })
		select {
		case t.news <- struct{}{}:
		default:
		}
	}
}

const (
	tailLines = 1000
	tailBytes = 1 << 20
)

// tail is the end of what a job has written.
func (t *topLoop) tail(ctx context.Context, job string) ([]string, error) {
	in, err := t.d.Logs(ctx, job, client.LogOptions{Tail: tailLines})
	if err != nil {
		return nil, err
	}
	defer in.Close()
	text, err := io.ReadAll(io.LimitReader(in, tailBytes))
	if err != nil {
		return nil, err
	}
	return outputLines(string(text)), nil
}
