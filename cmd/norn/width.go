package main

import (
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// widthOf is how wide the terminal is that a verb writes to; 0: it writes to none.
func widthOf(cmd *cobra.Command) int {
	file, ok := cmd.OutOrStdout().(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return 0
	}
	if w, _, err := term.GetSize(int(file.Fd())); err == nil && w > 0 {
		return w
	}
	return 80
}
