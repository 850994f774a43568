package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/norn-scheduler/norn/api"
)

// detachKey ends an attachment, and nothing else: ctrl-].
const detachKey = 0x1d

func (s *shell) attachCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "attach JOB",
		Short: "Sit down at the terminal of a job",
		Long: `Attach shows what a job writes from now on, and types at its terminal, if it was
submitted with one (norn run --pty, norn submit --pty). Ctrl-] leaves it; the job goes
on. It ends when the job does, with its exit code. Several may attach to one job.`,
		Example: `  norn attach 17
  norn attach 17 --server /run/norn.sock`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: s.completeFirstJob(anyState),
	}
	cmd.RunE = s.asked(func(cmd *cobra.Command, d daemon, args []string) error {
		j, err := d.Job(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		if j.State.Over() {
			return fmt.Errorf("%s", fateOf(j))
		}
		t := seatOf(cmd)
		return t.attach(cmd.Context(), d, args[0], 50)
	})
	whereFlags(cmd)
	return cmd
}

func (s *shell) runCommand() *cobra.Command {
	f := &submitting{shell: s}
	cmd := &cobra.Command{
		Use:   "run [flags] [--] COMMAND [ARG...]",
		Short: "Run a command on the machine as if it were here",
		Long: `Run submits a command, waits until it starts, shows what it writes, and ends with its
exit code. Interrupting it, or closing its terminal, cancels the job.

With --pty the command has a terminal, so that it can be a shell: what is typed here
is typed there, interrupts included, and the GPUs are given back when it ends. Ctrl-]
leaves it and lets it go on; norn attach comes back to it. It takes the flags of norn
submit.`,
		Example: `  norn run --pty -- bash
  norn run --pty --gpus 2 --limit 8h -- bash -l
  norn run --gpus 1 -- python train.py`,
		Args: cobra.ArbitraryArgs,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return refused(f.runHere(cmd, args)) }
	fl := cmd.Flags()
	fl.SortFlags = false
	fl.SetInterspersed(false)
	f.options = s.newOptions(fl)
	fl.BoolVar(&f.plain, "no-env", false, "take over nothing of this shell's environment but a few variables")
	fl.BoolVarP(&f.quiet, "quiet", "q", false, "say nothing but what the command says")
	whereFlags(cmd)
	return cmd
}

// runHere submits a command and stays with it.
func (f *submitting) runHere(cmd *cobra.Command, args []string) error {
	specs, err := f.specs(cmd, args)
	if err != nil {
		return err
	}
	if specs[0].Array != "" {
		return misused("norn run stays with one job; an array is for norn submit")
	}
	d, err := f.open(cmd)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), hangups...)
	defer stop()
	ids, err := d.Submit(ctx, specs[0])
	if err != nil {
		return err
	}
	t := seatOf(cmd)
	if f.quiet {
		t.remarks = io.Discard
	}
	fmt.Fprintf(t.remarks, "norn: job %s\n", ids[0])
	if err = t.attach(ctx, d, ids[0], -1); ctx.Err() != nil { // nobody looks any more
		bye, done := context.WithTimeout(context.Background(), 10*time.Second)
		defer done()
		err = errors.Join(err, d.Do(bye, "cancel", ids[0]))
	}
	return err
}

// seat is where somebody sits who is attached to a job.
type seat struct {
	in      io.Reader
	out     io.Writer
	remarks io.Writer
}

func seatOf(cmd *cobra.Command) *seat {
	return &seat{cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()}
}

// errDetached is the end of an attachment by who is attached.
var errDetached = errors.New("detached")

// attach shows what a job writes, of what it has written already so many lines (-1: all),
// and types what is typed, until the job ends or somebody leaves.
func (t *seat) attach(ctx context.Context, d daemon, id string, tail int) error {
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	j, err := d.Job(ctx, id)
	if err != nil {
		return err
	}
	if j.PTY {
		restore, err := t.raw()
		if err != nil {
			return err
		}
		defer restore()
		go t.types(ctx, d, id, leave)
		go t.resizes(ctx, d, id)
	}
	f := newFollower(ctx, d, t.remarks)
	err = f.show(ctx, id, tail, t.out)
	if errors.Is(context.Cause(ctx), errDetached) {
		fmt.Fprintf(t.remarks, "\r\nnorn: job %s goes on; norn attach %s comes back to it\r\n", id, id)
		return nil
	}
	if err != nil {
		return err
	}
	return waitForAll(ctx, d, []string{id}, t.remarks)
}

// raw has keys come as they are pressed, where somebody sits at a terminal.
func (t *seat) raw() (restore func(), err error) {
	in, ok := t.in.(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		return func() {}, nil
	}
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return nil, err
	}
	return func() { term.Restore(int(in.Fd()), before) }, nil
}

// types hands on what is typed, until the context ends or the detach key is pressed. At the
// end of an input that is no terminal the job's terminal is told so (ctrl-d).
func (t *seat) types(ctx context.Context, d daemon, id string, leave context.CancelCauseFunc) {
	buf := make([]byte, 4096)
	for ctx.Err() == nil {
		n, err := t.in.Read(buf)
		data := append([]byte(nil), buf[:n]...)
		for i, key := range data {
			if key == detachKey {
				t.hand(ctx, d, id, api.Input{Data: data[:i]})
				leave(errDetached)
				return
			}
		}
		if err != nil {
			data = append(data, 4) // ctrl-d
		}
		t.hand(ctx, d, id, api.Input{Data: data})
		if err != nil {
			return
		}
	}
}

// hand types something at the job's terminal; as long as there is none yet, or Norn does
// not answer, it tries again.
func (t *seat) hand(ctx context.Context, d daemon, id string, in api.Input) {
	if len(in.Data) == 0 && in.Rows == 0 {
		return
	}
	for {
		err := d.Input(ctx, id, in)
		if err == nil || !lost(err) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// resizes tells the job's terminal how large this one is, now and whenever that changes.
func (t *seat) resizes(ctx context.Context, d daemon, id string) {
	out, ok := t.out.(*os.File)
	if !ok || !term.IsTerminal(int(out.Fd())) {
		return
	}
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, resizes...)
	defer signal.Stop(changed)
	for {
		if cols, rows, err := term.GetSize(int(out.Fd())); err == nil && rows > 0 && cols > 0 && rows < 1<<16 && cols < 1<<16 {
			t.hand(ctx, d, id, api.Input{Rows: uint16(rows), Cols: uint16(cols)})
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}
