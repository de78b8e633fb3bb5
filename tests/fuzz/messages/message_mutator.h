// Structure-aware inputs: the input is a protobuf message in text format. A mutation changes its fields, so that the
// result always parses, and a stored input can be read.
#pragma once

#include <google/protobuf/message.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace mooring::fuzz {

// False: the text is no message of this type.
bool ParseInput(const std::uint8_t* data, std::size_t size, google::protobuf::Message& message);

// For LLVMFuzzerCustomMutator. `prototype` is the type of the input. `words` are texts that fields get besides random
// ones. Returns the new size.
std::size_t MutateInput(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed,
                        const google::protobuf::Message& prototype, const std::vector<std::string>& words);

// For LLVMFuzzerCustomCrossOver: puts a part of one input into another.
std::size_t CrossInputs(const std::uint8_t* data1, std::size_t size1, const std::uint8_t* data2, std::size_t size2,
                        std::uint8_t* out, std::size_t most, unsigned seed, const google::protobuf::Message& prototype);

}  // namespace mooring::fuzz
