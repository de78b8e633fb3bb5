package main

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// startProcess starts a program that dies with the driver.
func startProcess(command *exec.Cmd, log string) (*exec.Cmd, error) {
	output, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer output.Close()
	command.Stdout, command.Stderr, command.Dir = output, output, "/"
	return command, command.Start()
}

func endProcess(process *exec.Cmd, signal syscall.Signal) {
	_ = process.Process.Signal(signal)
	_ = process.Process.Signal(syscall.SIGCONT)
	_ = process.Wait()
}

func eventually(what string, patience time.Duration, condition func() error) error {
	return soon(what, patience, 50*time.Millisecond, condition)
}

// soon asks for the condition again after each pause.
func soon(what string, patience, pause time.Duration, condition func() error) error {
	deadline := time.Now().Add(patience)
	for {
		err := condition()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not after %v: %s: %w", patience, what, err)
		}
		time.Sleep(pause)
	}
}
