package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/norn-scheduler/norn/api/web"
)

func (s *shell) webCommand() *cobra.Command {
	port, printed := 0, false
	cmd := &cobra.Command{
		Use:   "web",
		Short: "Open the page of a running Norn in a browser",
		Long: `Web opens a page that shows devices and jobs as they change: who has what, who waits,
why and until when. You may do there to your jobs what you may do on the command line.

The page is served on a port of this machine as long as norn web runs. Its link lets in
one browser, once. Other users of the machine can reach the port, but not what is behind.
From another machine, forward the same port: ssh -t -L 7078:127.0.0.1:7078 box norn web --port 7078`,
		Example: `  norn web
  norn web --port 7078 --print`,
		Args: cobra.NoArgs,
	}
	cmd.RunE = s.asked(func(cmd *cobra.Command, d daemon, _ []string) error {
		if _, err := d.Status(cmd.Context()); err != nil {
			return err
		}
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			return fmt.Errorf("the page cannot be served: %w", err)
		}
		gate, link := web.NewGate(l.Addr().String(), d.Proxy(), s.now)
		fmt.Fprintln(cmd.OutOrStdout(), link)
		remark(cmd, "the link lets in one browser, once, within ten minutes; Ctrl-C ends the page")
		ctx, stop := context.WithCancel(cmd.Context())
		var browser sync.WaitGroup
		if opener := s.opener(); opener != "" && !printed {
			browser.Go(func() { // it may go on for as long as the browser does
				if err := openPrivately(ctx, opener, link); err != nil && ctx.Err() == nil {
					remark(cmd, "no browser could be opened: %v", err)
				}
			})
		}
		err = servePage(ctx, l, gate)
		stop()
		browser.Wait()
		return err
	})
	cmd.Flags().IntVar(&port, "port", 0, "port of this machine (0: any that is free)")
	cmd.Flags().BoolVar(&printed, "print", false, "print the link, and open no browser")
	whereFlags(cmd)
	return cmd
}

// opener is the program that opens a file in the user's browser; empty: there is no screen.
func (s *shell) opener() string {
	switch {
	case runtime.GOOS == "darwin":
		return "open"
	case cmp.Or(s.getenv("DISPLAY"), s.getenv("WAYLAND_DISPLAY")) == "":
		return ""
	}
	return "xdg-open"
}

// openPrivately opens a link in a browser, and returns when the context ends. Every user can
// read the arguments of programs, so the link goes there in a file that nobody else may read.
func openPrivately(ctx context.Context, opener, link string) error {
	dir, err := os.MkdirTemp("", "norn-web-") // mode 0700
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "norn.html")
	text := `<!doctype html><meta charset="utf-8"><title>Norn</title><meta http-equiv="refresh" content="0;url=` + link + `"><a href="` + link + `">Norn</a>` + "\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return err
	}
	if err := exec.CommandContext(ctx, opener, path).Run(); err != nil {
		return err
	}
	<-ctx.Done() // the browser reads the file when it pleases
	return nil
}

// servePage serves until the context ends, and then ends what goes on.
func servePage(ctx context.Context, l net.Listener, page http.Handler) error {
	srv := &http.Server{Handler: page, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10}
	stop := context.AfterFunc(ctx, func() { srv.Close() })
	defer stop()
	err := srv.Serve(l)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
